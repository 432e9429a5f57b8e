//go:build unix

package crash

import (
	"math/rand/v2"
)

// A step is one process that is killed.
type step struct {
	failpoint
	nth    int
	unseen bool // the next process goes on without an audit
}

// A plan is the sequence of processes over one directory. It follows from its number and the seed.
type plan struct {
	number int
	sizes  Sizes
	random *rand.Rand
	steps  []step
}

// newPlan returns a plan of ten kills: one while the log begins, five at failpoints, each in its
// turn, and between them four at a random moment.
func newPlan(number int, seed uint64) *plan {
	p := &plan{number: number, random: rand.New(rand.NewPCG(seed, uint64(number)))}
	p.sizes = []Sizes{{Segment: 24 << 10, Ahead: 4 << 10}, {Segment: 8 << 10, Ahead: 2 << 10},
		{Segment: 100 << 10, Ahead: 16 << 10}, {}}[number%4]
	rolling := number%4 != 3
	var begins, others []failpoint
	for _, f := range failpoints {
		switch {
		case f.needs == needsNothing:
			begins = append(begins, f)
		case rolling || !f.rolls:
			others = append(others, f)
		}
	}
	p.at(begins[number%len(begins)])
	turn := number / 4
	if rolling {
		turn = number - number/4
	}
	for i := range 9 {
		if i%2 == 1 {
			p.steps = append(p.steps, step{unseen: p.random.IntN(4) == 0})
			continue
		}
		f := others[(turn*5+i/2)%len(others)]
		switch f.needs {
		case needsTorn:
			p.at(pointNamed("frame: a part is written"))
			p.steps[len(p.steps)-1].unseen = true
		case needsHalf:
			p.at(pointNamed("erase: a part is overwritten"))
			p.steps[len(p.steps)-1].unseen = true
		case needsOpen:
			p.at(pointNamed("after the effect"))
			p.steps[len(p.steps)-1].unseen = true
		}
		p.at(f)
	}
	p.steps[len(p.steps)-1].unseen = false
	return p
}

func (p *plan) at(f failpoint) {
	p.steps = append(p.steps, step{failpoint: f, nth: 1 + p.random.IntN(f.most)})
}

func pointNamed(name string) failpoint {
	for _, f := range failpoints {
		if f.name == name {
			return f
		}
	}
	panic("no failpoint " + name)
}
