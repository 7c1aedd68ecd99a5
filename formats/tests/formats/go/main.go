// Asks Go's regexp package what it takes, and what it finds.
//
//	go run main.go > recorded.jsonl
//
// With two arguments, a seed and a count, it prints as many random expressions instead.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// An expression in pieces, each so many times; or, as a stair, `a|aa|aaa` and so on, of its one piece.
type line struct {
	Pieces [][2]any            `json:"pieces"`
	Stair  bool                `json:"stair,omitempty"`
	What   string              `json:"what,omitempty"`
	Expr   string              `json:"expr,omitempty"`
	Whole  bool                `json:"whole,omitempty"`
	Found  map[string][]string `json:"found,omitempty"`
}

func (l line) text() string {
	var b strings.Builder
	for _, piece := range l.Pieces {
		times := piece[1].(int)
		if l.Stair {
			for i := 1; i <= times; i++ {
				if i > 1 {
					b.WriteByte('|')
				}
				b.WriteString(strings.Repeat(piece[0].(string), i))
			}
			continue
		}
		b.WriteString(strings.Repeat(piece[0].(string), times))
	}
	return b.String()
}

// Whether it is taken; what it finds in small texts if it is small.
func (l *line) ask(values []string) bool {
	text := l.text()
	_, err := syntax.Parse(text, syntax.Perl)
	if err, ok := err.(*syntax.Error); ok {
		l.What = string(err.Code)
		if err.Expr == text {
			l.Whole = true
		} else {
			l.Expr = err.Expr
		}
		return false
	}
	if len(values) > 0 {
		re := regexp.MustCompile(text)
		l.Found = map[string][]string{}
		for _, value := range values {
			found := re.FindAllString(value, -1)
			if found == nil {
				found = []string{}
			}
			l.Found[value] = found
		}
	}
	return true
}

func print(l line) {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(l); err != nil {
		panic(err)
	}
}

// The greatest count that is taken, and the next one.
func boundary(most int, of func(int) line) {
	between(0, most, of)
}

func between(low, most int, of func(int) line) {
	high := most
	for low < high {
		middle := (low + high + 1) / 2
		l := of(middle)
		if l.ask(nil) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	for _, count := range []int{low, low + 1} {
		l := of(count)
		l.ask(nil)
		print(l)
	}
}

func pieces(of ...any) line {
	var l line
	for i := 0; i < len(of); i += 2 {
		l.Pieces = append(l.Pieces, [2]any{of[i], of[i+1]})
	}
	return l
}

var atoms = []string{
	"a", "b", "c", "ab", "abc", "abd", "B", "é", "k", "K", "s", "ſ", ".", "^", "$", `\b`, `\B`, `\A`, `\z`, `\d`, `\D`, `\w`, `\W`, `\s`, `\S`,
	"[ab]", "[^ab]", "[a-c]", "[^a-c]", "[a]", "[kK]", "[aA]", "[sS]", `[\d-]`, `[^\D]`, "[[:alpha:]]", "[[:^alpha:]]", "[[:word:]b]", `[\x00-\x{10FFFF}]`,
	`[^\x00-\x{10FFFF}]`, `[^\n]`, `\pZ`, `\PZ`, `\p{Greek}`, `\p{^Greek}`, `\p{greek}`, `\p{Old_Italic}`, `\p{Space_Separator}`, `\p{Nope}`, `\x41`, `\x{e9}`, `\101`, `\Qa.b\E`, `\n`, "-", "_", "1",
	"{", "}", "]", "a{2}", "{2,1}", "a{1001}", "(?i)", "(?-i)", "(?s)", "(?m)", "(?U)", "(?i:k)", "(?P<n>a)", "(?<m>b)", `\8`, `\Z`, "(?=a)", "[z-a]", "[[:foo:]]", "(?P<n!>a)", "[a-", "(?", "[]a]", "[^]a]", `\`,
}
var repeats = []string{"*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{1}", "{0,}", "{2,}", "{1,3}", "{0,2}?", "{3,3}", "{10}", "{1000}", "**", "{,2}"}

func random(r *rand.Rand, depth int) string {
	n := r.Intn(4)
	var b strings.Builder
	for i := 0; i <= n; i++ {
		switch k := r.Intn(12); {
		case k < 6 || depth == 0:
			// Most of those that are wrong come last.
			j := r.Intn(len(atoms))
			if j > 58 && r.Intn(3) > 0 {
				j = r.Intn(58)
			}
			b.WriteString(atoms[j])
		case k < 8:
			b.WriteString("(" + random(r, depth-1) + ")")
		case k < 9:
			b.WriteString("(?:" + random(r, depth-1) + ")")
		case k < 10:
			b.WriteString("(?i:" + random(r, depth-1) + ")")
		default:
			b.WriteString(random(r, depth-1))
			for r.Intn(3) > 0 {
				b.WriteString("|" + random(r, depth-1))
			}
		}
		if r.Intn(4) == 0 {
			b.WriteString(repeats[r.Intn(len(repeats))])
		}
	}
	return b.String()
}

var values = []string{"", "a", "abcabd", "ABCkKs ſé", "a\nb é\n", "aaab-1_x.y"}

// A few expressions many times over, near the limits.
func large(r *rand.Rand) line {
	var l line
	for i := r.Intn(3); i >= 0; i-- {
		times := 1
		switch r.Intn(4) {
		case 0:
			times = 1 + r.Intn(8)
		case 1:
			times = 300 + r.Intn(2000)
		case 2:
			times = 3000 + r.Intn(20000)
		}
		text := random(r, 2)
		if _, err := syntax.Parse(text, syntax.Perl); err != nil {
			text = "(a|b)c"
		}
		switch r.Intn(5) {
		case 0:
			text = "(?:" + text + "){" + strconv.Itoa(1+r.Intn(1000)) + "}"
		case 1:
			text = "(" + text + "|"
			l.Pieces = append(l.Pieces, [2]any{text, times % 1500}, [2]any{"x", 1}, [2]any{")", times % 1500})
			continue
		case 2:
			text += "|"
		}
		l.Pieces = append(l.Pieces, [2]any{text, times})
	}
	return l
}

func main() {
	if len(os.Args) > 2 {
		seed, _ := strconv.Atoi(os.Args[1])
		count, _ := strconv.Atoi(os.Args[2])
		r := rand.New(rand.NewSource(int64(seed)))
		for i := 0; i < count; i++ {
			if i%40 == 0 {
				l := large(r)
				l.ask(nil)
				print(l)
				continue
			}
			l := pieces(random(r, 3), 1)
			l.ask(values)
			print(l)
		}
		return
	}
	boundary(3000, func(n int) line { return pieces("(", n, "a", 1, ")", n) })
	boundary(3000, func(n int) line { return pieces("(?:", n, "a", 1, ")", n) })
	boundary(3000, func(n int) line { return pieces("(?:", n, "a", 1, ")*", n) })
	boundary(3000, func(n int) line { return pieces("(?:a|b*", n, ")", n) })
	boundary(3000, func(n int) line { return pieces("(a|", n, "b", 1, ")+", n) })
	boundary(3000, func(n int) line { return pieces("(a", n, "[xy]z", 1, "b?)", n) })
	boundary(5000, func(n int) line { return pieces("[ab]{1000}", n) })
	boundary(50000, func(n int) line { return pieces("(?:[ab][cd]){100}", n) })
	boundary(50000, func(n int) line { return pieces("a{1,100}", n) })
	boundary(50000, func(n int) line { return pieces("((x{10}){10}y{3}){7}", n) })
	boundary(50000, func(n int) line { return pieces("(?:a|b|cd|ce){70}|", n) })
	boundary(50000, func(n int) line { return pieces("(?:", 1, "abc|abd*|", n, "x){300}", 1) })
	boundary(100000, func(n int) line { return pieces("(?:", 1, "a", n, "){1000}", 1) })
	boundary(100000, func(n int) line { return pieces("(?:", 1, "a*", n, "){1000}", 1) })
	boundary(100000, func(n int) line { return pieces("x{1000,}(?:", 1, "ab?", n, "){900}", 1) })
	between(1677719, 1677721, func(n int) line { return pieces("a*", n) })
	between(466032, 466034, func(n int) line { return pieces(`\p{Greek}`, n) })
	between(155343, 155345, func(n int) line { return pieces(`(\p{Greek})`, n) })
	boundary(2000, func(n int) line { l := pieces("a", n); l.Stair = true; return l })
	// Go takes the cube of the count.
	boundary(100, func(n int) line { l := pieces("[ab]", n); l.Stair = true; return l })
	boundary(2000, func(n int) line { return pieces("(?:a{2}){", 1, fmt.Sprint(n), 1, "}", 1) })
	boundary(2000, func(n int) line { return pieces("(?:(?:a{2}){3,}){", 1, fmt.Sprint(n), 1, ",}?", 1) })
	for _, l := range []line{
		pieces(`\pL{1,1000}`, 50), pieces("(a{1000}){1000}", 1), pieces("a{1001}?", 1), pieces("(a{100}){11}?b", 1),
		pieces("((((a{0}){5}){900}){900}){2}", 1), pieces("(?:)", 100000), pieces("(?:a{0}){1000}", 4000), pieces("(?i)", 1, "a|K|ſ|", 30000),
		pieces("|", 100000), pieces("[", 100000), pieces("[:", 50000), pieces("{", 100000), pieces("(?", 1), pieces("(?<", 1), pieces("(?P<", 1), pieces(`\`, 100001),
		pieces(`(?i)[\x{42}-\x{1e943}]`, 2000), pieces("(", 100000), pieces(")", 1), pieces("(?:", 100000, ")", 100000),
	} {
		l.ask(nil)
		print(l)
	}
	r := rand.New(rand.NewSource(1))
	for i := 0; i < 1200; i++ {
		l := pieces(random(r, 3), 1)
		l.ask(values)
		print(l)
	}
	for i := 0; i < 60; i++ {
		l := large(r)
		l.ask(nil)
		print(l)
	}
}
