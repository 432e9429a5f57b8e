package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A row is of the calls that one replica ran under one policy, or of the unknown ones.
type row struct {
	by      string
	version uint64
}

// compare orders rows, the unknown ones last.
func (r row) compare(x row) int {
	if (r.by == "") != (x.by == "") {
		return -cmp.Compare(r.by, x.by)
	}
	return cmp.Or(cmp.Compare(slices.Index(names, r.by), slices.Index(names, x.by)), cmp.Compare(r.version, x.version))
}

// A count is of calls that were allowed.
type count struct {
	looked, paid int
	euros        uint64
}

func (c count) add(r ran) count {
	if r.tool == "bank.pay" {
		c.paid++
	} else {
		c.looked++
	}
	c.euros += r.euros
	return c
}

// print prints who ran what, what is unknown, what was denied, and what was spent.
func (l *ledger) print(out io.Writer) {
	rows := map[row]count{}
	for _, r := range l.ran {
		key := row{r.by, r.version}
		rows[key] = rows[key].add(r)
	}
	const line = "  %-8s %6v %7v %5v %6v\n"
	fmt.Fprintf(out, line, "replica", "policy", "looked", "paid", "euros")
	for _, key := range slices.SortedFunc(maps.Keys(rows), row.compare) {
		c := rows[key]
		fmt.Fprintf(out, line, cmp.Or(key.by, "unknown"), key.version, c.looked, c.paid, c.euros)
	}
	fmt.Fprintf(out, "  spent %27d of %d\n\n", l.spent(), l.limit)
	fmt.Fprint(out, "  denied: ")
	separator := ""
	for _, reason := range slices.Sorted(maps.Keys(l.denied)) {
		fmt.Fprintf(out, "%s%d %s", separator, l.denied[reason], reason)
		separator = ", "
	}
	fmt.Fprintln(out)
}

func (l *ledger) spent() (euros uint64) {
	for _, r := range l.ran {
		euros += r.euros
	}
	return euros
}

// compare returns an error if the bank's book says otherwise than the log, of any call, or if not
// the whole budget was spent. It returns how many of the unknown calls the bank has done.
func (l *ledger) compare(book []order) (unknown int, err error) {
	done := map[string][]order{}
	for _, o := range book {
		done[o.Reference] = append(done[o.Reference], o)
	}
	for id, r := range l.ran {
		orders := done[id]
		delete(done, id)
		if r.by == "" {
			unknown += len(orders)
		} else if len(orders) == 0 {
			return 0, fmt.Errorf("call %s has run, and the bank does not know it", id)
		}
		if len(orders) > 1 {
			return 0, fmt.Errorf("call %s has run once, and the bank has done it %d times", id, len(orders))
		}
		for _, o := range orders {
			if o.Tool != r.tool || o.Euros != r.euros || r.by != "" && o.Replica != r.by {
				return 0, fmt.Errorf("call %s was %+v, and at the bank it is %+v", id, r, o)
			}
		}
	}
	for id := range done {
		return 0, fmt.Errorf("the bank has done %q, and the log has no such call", id)
	}
	if spent := l.spent(); spent != l.limit {
		return 0, fmt.Errorf("%d euros were spent of a budget of %d", spent, l.limit)
	}
	return unknown, nil
}
