// Package collective connects the ranks of a run: processes, or devices of one, that train one
// model together. A Group joins them and notices when one is lost; a Reduction makes one step
// of the gradients that they have.
//
//	rank 0 ◄──► rank 1          every rank has one connection, with rank 0:
//	   ▲  ▲                     gradients are summed there, and it
//	   │  └───► rank 2          notices and names a rank that is lost
//	   └──────► rank 3
//
// Group calls are collective: all ranks make the same calls, in the same order. Their messages
// carry numbers, which expose a rank that made another call.
//
// # Connections
//
// Rank 0 listens on a TCP port; every other rank connects to it. Where the ranks have a secret, a
// connection is TLS 1.3, in which both ends have Ed25519 keys that package diskgnn/internal/secret
// derives from it: rank 0 is TLS's server with the key of "diskgnn ranks 1 listener", the others
// are clients with the key of "diskgnn ranks 1 dialer". The seed of each key is
// HKDF-SHA-256(secret, no salt, info = that text, 32 bytes). Each end sends one self-signed
// certificate, of which the peer checks only the public key, and ends the connection unless the
// peer has the other text's key. There are no session tickets, names, or authorities. Without a
// secret a connection is plain TCP: whoever reaches the port is believed. The rest of this text
// describes the bytes inside the connection.
//
// # Frames
//
// A connection carries frames, in both directions. Numbers are little-endian, floats are IEEE 754,
// and CRCs use Castagnoli's polynomial.
//
//	offset  bytes  content
//	0       4      "DGC2"; the last byte is the version
//	4       1      kind
//	5       3      zero
//	8       4      CRC-32C of the payload
//	12      8      length of the payload
//	20      4      CRC-32C of bytes 0 to 20
//	24             the payload
//
//	kind             most bytes  payload
//	1  hello         4096        JSON: which run and rank it is; the first frame of a rank
//	2  welcome       0           the rank has its place; once more when all ranks have joined and the run begins
//	3  refusal       4096        JSON: the reason why the rank cannot join
//	4  message       see below   u64 number, then bytes: of Gather and Broadcast
//	5  contribution  exact       u64 number, u32 labelled seed nodes, u32 0, float32 … : of a batch
//	6  ask           24          u64 number, u32 signals, u32 batches, u64 labelled seed nodes: the rank's step is computed
//	7  sum           exact       u64 number, u32 signals, u32 batches, u64 labelled seed nodes, float32 … : the step
//	8  beat          8           u64: 1 while the rank takes steps, else 0; one every second
//	9  lost          4096        JSON: the rank that is lost, and why; all end
//	10 bye           0           the rank is done
//
// A length above its kind's limit ends the connection before a byte of the payload is read. So do a
// wrong checksum, an unexpected kind and an unknown kind. Memory is taken for a payload only once
// its length is within bounds.
//
// # Joining
//
//	rank                     rank 0
//	hello        ───────►              within 5 seconds of connecting, TLS included
//	             ◄───────    welcome   the rank has its place
//	beat         ◄──────►    beat      each second, while other ranks are missing
//	             ◄───────    welcome   all ranks are there: the run begins
//
// JSON of a hello: {"run": …, "program": …, "rank": 1, "world": 4}. Run identifies the run
// (Options.Identify of package diskgnn/train: 64 hexadecimal digits), program is "VERSION, SHA-256
// HASH" as diskgnn version prints them; both are compared as text. JSON of a refusal: {"why": …,
// "other": true, "later": true, "ended": true}, without the members that are false:
//
//	other   another run listens there; the rank goes on looking, at all ports of rank 0's host
//	later   another process has the place, or the run has begun; the rank goes on looking
//	ended   rank 0 ends before the run begins, which can be resumed; the rank ends
//	none    the program or the world is another one, or there is no such rank; the rank ends
//
// Rank 0 goes on waiting in every case but the third. It may also send a lost frame in place of the
// second welcome. Before the second welcome a rank loses its place if its connection ends, if it
// sends nothing for 30 seconds, or if it sends anything but beats. The next process with a hello of
// that rank gets the place. A rank that does not hear from rank 0 for 30 seconds looks for it anew.
// At most 64 connections, or two for each rank, are neither welcomed nor refused: the oldest is
// closed for the next one.
//
// # Calls
//
// After the second welcome every call has a number, from 0. All ranks make the same calls in the
// same order; a frame with another number than its call ends the run. Ranks send ahead; at most
// four frames of a rank wait for rank 0's calls, then the connection blocks.
//
//	Broadcast   rank 0 sends each rank one message
//	Gather      each rank sends rank 0 one message
//	Agree       each rank sends an ask; when rank 0 has all, it sends each a sum without floats
//	Step        each rank sends a contribution for each of its batches, in order, then an ask; when
//	            rank 0 has all, it sends each a sum
//
// Each Gather and Broadcast bounds the length of its messages (without the number). A message of up
// to 65536 bytes, with the number, is read on arrival, and the call compares it with its bound. Of
// a longer message the header and the number are read; the rest stays in the connection until the
// call with that number gives its bound, and is never read if it is longer.
//
// A contribution has a float32 for each parameter of the model and each running statistic: the
// gradients of the batch summed over its labelled seed nodes, then the statistics. Rank 0 adds
// contributions to its own by rank, and by batch within a rank. A sum has the summed gradients,
// then the statistics of every batch one after the other. Its head has the numbers of batches and
// labelled seed nodes: every rank divides, and takes the step, by itself. Signals are bits: 1 ends
// the run after this step, 2 writes a checkpoint after it; the sum has the union of all asks.
//
// The calls of a run of train, with JSON in the messages:
//
//	Broadcast  is the run resumed, and its run.json          16 MiB
//	Gather     where gradients could be summed                1 MiB
//	Broadcast  where they are                                 1 MiB
//	Gather     fingerprints, options, arithmetic              1 MiB
//	Broadcast  why they do not fit rank 0's, if they don't    1 MiB
//	Broadcast  the position and epochs of the checkpoint     16 MiB, or an eighth of --memory
//	Broadcast  each of its sections, no JSON                 the bytes of a checkpoint
//	Gather     nothing: all are prepared                      0
//	Broadcast  nothing                                        0
//	Step …     and after one with a signal: Gather shares     1 MiB, 64 bytes a batch, scores
//	Gather     shares, after an epoch's steps
//	Broadcast  the epoch as it was judged                     1 MiB
//	Broadcast  the result, after the last epoch               1 MiB
//
// # Ends
//
// JSON of a lost frame: {"Rank": 2, "World": 4, "Address": "…", "Why": "…"}. A rank other than 0
// speaks for itself alone, whatever rank it names; rank 0 tells all others which rank is lost. A
// rank is lost if its connection ends without bye, if it breaks a rule above, if it sends nothing
// for 30 seconds, or if its step takes longer than a minute and than 20 times the median of the
// latest steps.
package collective
