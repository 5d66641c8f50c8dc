package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// procStat is what a process has used until now.
type procStat struct {
	ticks int64 // user and system time, in hundredths of a second
	rss   int64 // KiB
	peak  int64 // KiB
}

// readProc asks the kernel.
func readProc(pid int) (procStat, error) {
	var p procStat
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	// The command, in brackets, may contain blanks.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return p, fmt.Errorf("/proc/%d/stat has no times", pid)
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	p.ticks = user + system
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(status)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "VmRSS:":
			p.rss = kib
		case "VmHWM:":
			p.peak = kib
		}
	}
	return p, nil
}

// cpuSince is in seconds.
func (p procStat) cpuSince(earlier procStat) float64 {
	return float64(p.ticks-earlier.ticks) / 100
}

// awaitIdle waits until the process has used at most two ticks a second for two seconds running.
func awaitIdle(pid int, limit time.Duration) {
	started := time.Now()
	for quiet := 0; quiet < 2 && time.Since(started) < limit; quiet++ {
		before, err := readProc(pid)
		if err != nil {
			return
		}
		time.Sleep(time.Second)
		after, err := readProc(pid)
		if err != nil {
			return
		}
		if after.ticks-before.ticks > 2 {
			quiet = -1
		}
	}
}
