package kernel

// Scores of edges, and what they become: a row for every edge, an element for every
// head. Slopes are those of a leaky ReLU where it is not positive, from 0 up to, not
// including, 1.

// LeakyScores adds own to every row of scores and raises top to the largest of each
// head after the leaky ReLU, whose results it stores in w, which may be scores.
func LeakyScores(w, scores, own, top []float32, slope float32) {
	heads := len(own)
	w, top = w[:len(scores)], top[:heads]
	if level == plain || heads == 0 {
		leakyScoresPlain(w, scores, own, top, slope)
		return
	}
	leakyScoresSIMD(w, scores, own, top, slope)
}

// ScoreGradients replaces scores by their gradients through leaky ReLU and softmax,
//
//	w · (d − total) · slope
//
// where w are the softmax's results, d their gradients and total, for every head, the
// sum of their products. It adds the gradients to own.
func ScoreGradients(scores, w, d, total, own []float32, slope float32) {
	heads := len(total)
	w, d, own = w[:len(scores)], d[:len(scores)], own[:heads]
	if level == plain || heads == 0 {
		scoreGradientsPlain(scores, w, d, total, own, slope)
		return
	}
	scoreGradientsSIMD(scores, w, d, total, own, slope)
}

func leakyScoresPlain(w, scores, own, top []float32, slope float32) {
	heads := len(own)
	for len(scores) >= heads && heads > 0 {
		s, v := scores[:heads], w[:heads]
		for h := range own {
			s[h] += own[h]
			l := s[h]
			if !(l > 0) {
				l *= slope
			}
			if v[h] = l; l > top[h] {
				top[h] = l
			}
		}
		scores, w = scores[heads:], w[heads:]
	}
}

func scoreGradientsPlain(scores, w, d, total, own []float32, slope float32) {
	heads := len(total)
	for len(scores) >= heads && heads > 0 {
		s, w1, d1 := scores[:heads], w[:heads], d[:heads]
		for h, t := range total {
			g := float32(w1[h] * (d1[h] - t))
			if !(s[h] > 0) {
				g = float32(g * slope)
			}
			s[h] = g
			own[h] += g
		}
		scores, w, d = scores[heads:], w[heads:], d[heads:]
	}
}
