package ranks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/program"
	"diskgnn/internal/progress"
	"diskgnn/internal/secret"
	"diskgnn/train/collective"
)

// Membership describes a process's part in a run of several ranks.
type Membership struct {
	// Job is the number of this process, the number of processes, and rank 0's address; the zero
	// Place is a run of one rank.
	Job job.Place
	// RunID is the run's name among all of its ranks: it distinguishes the listeners of several
	// runs.
	RunID string
	// Secret is shared by ranks of several hosts, and by people who watch the run. Insecure permits
	// them to have none.
	Secret   secret.Secret
	Insecure bool
}

// Join joins the group of the run's ranks, and returns once all of them have joined. The caller closes
// the group.
func Join(ctx context.Context, o *Membership, rep progress.Reporter) (*collective.Group, error) {
	if o.Job.Count < 2 {
		return collective.One(), nil
	}
	if err := o.Trusts(rep); err != nil {
		return nil, err
	}
	j := &o.Job
	m := collective.Member{Rank: j.Index, World: j.Count, Run: o.RunID, Program: program.Name(program.Version(), program.Hash()),
		Secret: o.Secret, Limits: collective.Usual, Note: rep.Logf}
	if j.Index > 0 {
		return collective.Dial(ctx, m, j.Addresses())
	}
	l, err := j.Listen(ctx)
	if err != nil {
		return nil, err
	}
	return collective.Listen(ctx, m, l)
}

// Trusts refuses ranks that other hosts can reach without a secret, unless the options permit it.
func (o *Membership) Trusts(rep progress.Reporter) error {
	switch {
	case o.Secret.Given():
		rep.Logf("ranks: connections are encrypted, and only ranks with the secret take part")
	case o.Job.Local():
	case o.Insecure:
		rep.Logf("--insecure: whoever reaches %s can take part in the run, and read and change what ranks send", o.Job.Host)
	default:
		return fault.New(fault.ErrUsage, "rank 0 listens at %s, which other hosts can reach: give all ranks the same secret, in %s or --secret-file (openssl rand -hex 32 makes one), or --insecure if only trusted hosts can reach it", o.Job.Host, secret.Variable)
	}
	return nil
}

// jobs are the variables in which schedulers and launchers put the identity of a run.
var jobs = []string{"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE"}

// Identify sets RunID, by which a rank recognises the ranks of other runs at the same host. It is a
// hash over the variables of schedulers, the port and the directories on the command line of the
// ranks. For ranks of one host the working directory is hashed, too. Ranks of several hosts may
// have mounted it at different places, so their directories are hashed as they are written.
func (o *Membership) Identify(dirs []string, env job.Env) error {
	var common struct {
		Jobs, Dirs []string
		Port       int
	}
	for _, name := range jobs {
		common.Jobs = append(common.Jobs, env(name))
	}
	common.Port = o.Job.Port
	base := ""
	if o.Job.Local() {
		var err error
		if base, err = workingDirectory(); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		switch {
		case filepath.IsAbs(dir):
			dir = filepath.Clean(dir)
		case dir != "":
			dir = filepath.Join(base, dir)
		}
		common.Dirs = append(common.Dirs, dir)
	}
	b, err := json.Marshal(&common)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	o.RunID = hex.EncodeToString(sum[:])
	return nil
}

// workingDirectory returns its path without symbolic links: ranks may have reached it by different
// links.
func workingDirectory() (string, error) {
	path, err := filepath.Abs(".")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fault.New(fault.ErrUsage, "the working directory: %w", err)
	}
	return path, nil
}
