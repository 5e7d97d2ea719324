package redismodel

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// scripts run as Redis runs them: one after the other, each whole.
type scripts struct {
	do     func(args ...string) any // runs a command
	state  *lua.LState
	loaded map[string]*lua.LFunction // by SHA-1
	sums   map[string]string         // SHA-1 by text
	ok     lua.LValue                // the status OK
}

func newScripts(do func(args ...string) any) *scripts {
	s := &scripts{do: do, state: lua.NewState(), loaded: map[string]*lua.LFunction{}, sums: map[string]string{}}
	redis := s.state.NewTable()
	redis.RawSetString("call", s.state.NewFunction(func(l *lua.LState) int { return s.call(l, true) }))
	redis.RawSetString("pcall", s.state.NewFunction(func(l *lua.LState) int { return s.call(l, false) }))
	s.state.SetGlobal("redis", redis)
	lua.CompatVarArg = false // the table "arg" of a script, which none reads
	s.faster("match", `^(%d+) (%d+) (%d+)$`, numbers(3, true))
	s.faster("match", `^(%d+) (%d+)`, numbers(2, false))
	s.faster("format", "%.0f", func(l *lua.LState) int {
		l.Push(lua.LString(strconv.FormatFloat(float64(l.CheckNumber(2)), 'f', 0, 64)))
		return 1
	})
	return s
}

// faster has a function of the library string run in Go where one of its arguments is this
// pattern: the interpreter compiles a pattern at each call.
func (s *scripts) faster(name, pattern string, f func(*lua.LState) int) {
	library := s.state.GetGlobal("string").(*lua.LTable)
	slow := library.RawGetString(name).(*lua.LFunction).GFunction
	library.RawSetString(name, s.state.NewFunction(func(l *lua.LState) int {
		for i := range min(l.GetTop(), 2) {
			if v, ok := l.Get(i + 1).(lua.LString); ok && string(v) == pattern {
				return f(l)
			}
		}
		return slow(l)
	}))
}

// numbers matches n numbers with a blank between each, and the end of the text after the last.
func numbers(n int, whole bool) func(*lua.LState) int {
	return func(l *lua.LState) int {
		rest, out := l.CheckString(1), [3]string{}
		for i := range n {
			digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
			out[i], rest = rest[:digits], rest[digits:]
			last := i == n-1
			if digits == 0 || !last && !strings.HasPrefix(rest, " ") || last && whole && rest != "" {
				l.Push(lua.LNil)
				return 1
			}
			rest = strings.TrimPrefix(rest, " ")
		}
		for _, text := range out[:n] {
			l.Push(lua.LString(text))
		}
		return n
	}
}

// eval runs a script by its text, which is loaded then, or by the sum of a loaded text. args
// are "<number of keys> key... argument...".
func (s *scripts) eval(byText bool, script string, args []string) any {
	name := script
	if byText {
		if name = s.sums[script]; name == "" {
			sum := sha1.Sum([]byte(script))
			name = hex.EncodeToString(sum[:])
			s.sums[script] = name
		}
	}
	if s.loaded[name] == nil {
		if !byText {
			//lint:ignore ST1005 these are the words of Redis
			return errors.New("NOSCRIPT No matching script. Please use EVAL.")
		}
		f, err := s.state.Load(strings.NewReader(script), name)
		if err != nil {
			return fmt.Errorf("ERR Error compiling script: %w", err)
		}
		s.loaded[name] = f
	}
	keys := number(args[0])
	s.state.SetGlobal("KEYS", s.strings(args[1:1+keys]))
	s.state.SetGlobal("ARGV", s.strings(args[1+keys:]))
	s.state.Push(s.loaded[name])
	if err := s.state.PCall(0, 1, nil); err != nil {
		if thrown, ok := errors.AsType[*lua.ApiError](err); ok {
			return errors.New(thrown.Object.String())
		}
		return fmt.Errorf("ERR %w", err)
	}
	defer s.state.Pop(1)
	return fromLua(s.state.Get(-1))
}

func (s *scripts) strings(values []string) *lua.LTable {
	t := s.state.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}
	return t
}

// call is redis.call, or redis.pcall, which gives an error as a table.
func (s *scripts) call(l *lua.LState, throw bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = l.Get(i + 1).String()
		if n, ok := l.Get(i + 1).(lua.LNumber); ok {
			args[i] = strconv.FormatFloat(float64(n), 'g', 17, 64)
		}
	}
	v := s.do(args...)
	if err, ok := v.(error); ok && throw {
		l.Error(lua.LString(err.Error()), 0)
	}
	l.Push(s.toLua(v))
	return 1
}

func (s *scripts) toLua(v any) lua.LValue {
	one := func(field, text string) lua.LValue {
		t := s.state.CreateTable(0, 1)
		t.RawSetString(field, lua.LString(text))
		return t
	}
	switch v := v.(type) {
	case nil:
		return lua.LFalse
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64: // a score, which scripts see as text
		return lua.LString(strconv.FormatFloat(v, 'f', 0, 64))
	case status:
		if s.ok == nil { // no script changes it
			s.ok = one("ok", "OK")
		}
		if v == "OK" {
			return s.ok
		}
		return one("ok", string(v))
	case error:
		return one("err", v.Error())
	case []any:
		t := s.state.CreateTable(len(v), 0)
		for _, e := range v {
			if scored, ok := e.([]any); ok && len(scored) == 2 { // a member with its score, which scripts see in RESP2
				if score, ok := scored[1].(float64); ok {
					t.Append(s.toLua(scored[0]))
					t.Append(lua.LString(strconv.FormatFloat(score, 'f', 0, 64)))
					continue
				}
			}
			t.Append(s.toLua(e))
		}
		return t
	}
	panic(fmt.Sprintf("no such value in Lua: %T", v))
}

// fromLua cuts fractions off and ends an array at its first nil, as Redis does.
func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if ok := v.RawGetString("ok"); ok != lua.LNil {
			return status(ok.String())
		}
		if err := v.RawGetString("err"); err != lua.LNil {
			return errors.New(err.String())
		}
		all := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			all = append(all, fromLua(v.RawGetInt(i)))
		}
		return all
	}
	return nil
}
