package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

const (
	requestDescriptor = 3
	failureDescriptor = 4

	exitNotExecutable = 126
	exitNotFound      = 127
	// The watch counts all processes and reports the limit; the rlimit only ends one process.
	cpuBackstopSeconds = 2
	// The supervisor's threads count as processes of the same user.
	ownProcesses = threads + 8
)

// execAgent runs in the process that becomes the agent, and does not return.
func execAgent() error {
	// The filter and the priority are the thread's, and the thread becomes the agent.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	syscall.CloseOnExec(requestDescriptor)
	syscall.CloseOnExec(failureDescriptor)
	failure := os.NewFile(failureDescriptor, "failure")
	request := &execRequest{}
	err := json.NewDecoder(os.NewFile(requestDescriptor, "request")).Decode(request)
	if err == nil {
		err = becomeAgent(request)
	}
	fmt.Fprint(failure, err)
	os.Exit(1)
	return nil
}

// becomeAgent returns an error if the limits cannot be applied. If there is no such program, it
// exits as a shell does.
func becomeAgent(r *execRequest) error {
	if err := os.Chdir(r.Directory); err != nil {
		return err
	}
	syscall.Umask(r.Umask)
	if err := setHarmfulSignals(signalDefault); err != nil {
		return err
	}
	raiseOOMScore(r.OOMScore)
	program, isFound := findProgram(r.Argv[0], r.Environment["PATH"])
	if !isFound {
		exitAsShell(r.Argv[0], syscall.ENOENT)
	}
	environment := agentEnvironment(r)
	lowerPriority(r.Nice)
	if err := setLimits(r.Limits); err != nil {
		return err
	}
	if err := applyFilters(r.Seccomp); err != nil {
		return err
	}
	err := syscall.Exec(program, r.Argv, environment)
	if err == syscall.ENOEXEC {
		// A script without an interpreter, which shells run themselves.
		err = syscall.Exec("/bin/sh", append([]string{"sh", program}, r.Argv[1:]...), environment)
	}
	exitAsShell(r.Argv[0], err)
	return nil
}

func exitAsShell(name string, err error) {
	// Or the interpreter of a script does not exist.
	if err == syscall.ENOENT {
		fmt.Fprintf(os.Stderr, "%s: not found\n", name)
		os.Exit(exitNotFound)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(exitNotExecutable)
}

func agentEnvironment(r *execRequest) []string {
	trustWorkspace(r)
	environment := make([]string, 0, len(r.Environment))
	for name, value := range r.Environment {
		environment = append(environment, name+"="+value)
	}
	return environment
}

// trustWorkspace lets git use the workspace: a volume belongs to root, not to the agent.
func trustWorkspace(r *execRequest) {
	var status syscall.Stat_t
	if syscall.Stat(r.Directory, &status) != nil || int(status.Uid) == os.Geteuid() || r.Environment == nil {
		return
	}
	count, _ := strconv.Atoi(r.Environment["GIT_CONFIG_COUNT"])
	r.Environment[fmt.Sprintf("GIT_CONFIG_KEY_%d", count)] = "safe.directory"
	r.Environment[fmt.Sprintf("GIT_CONFIG_VALUE_%d", count)] = r.Directory
	r.Environment["GIT_CONFIG_COUNT"] = strconv.Itoa(count + 1)
}

// findProgram returns the first executable in PATH, or else the first file.
func findProgram(name, path string) (string, bool) {
	if strings.Contains(name, "/") {
		_, err := os.Stat(name)
		return name, err == nil
	}
	first := ""
	for _, directory := range filepath.SplitList(path) {
		candidate := filepath.Join(directory, name)
		status, err := os.Stat(candidate)
		if err != nil || status.IsDir() {
			continue
		}
		if isExecutable(candidate) {
			return candidate, true
		}
		if first == "" {
			first = candidate
		}
	}
	return first, first != ""
}

// raiseOOMScore makes the kernel prefer the agent to the supervisor. Lowering it is not permitted.
func raiseOOMScore(score int) {
	const path = "/proc/self/oom_score_adj"
	text, _ := os.ReadFile(path)
	current, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if score <= current {
		score = current + 100
	}
	if score > 1000 {
		score = 1000
	}
	_ = os.WriteFile(path, []byte(strconv.Itoa(score)), 0)
}

// lowerPriority adds to the niceness, as nice(1) does.
func lowerPriority(increment int) {
	// The kernel returns 20 minus the niceness.
	if priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-priority+increment)
	}
}

func setLimits(l limits) error {
	values := map[int]uint64{syscall.RLIMIT_CORE: 0}
	if l.FileBytes > 0 {
		values[syscall.RLIMIT_FSIZE] = l.FileBytes
	}
	if l.CPUSeconds > 0 {
		values[syscall.RLIMIT_CPU] = l.CPUSeconds + cpuBackstopSeconds
	}
	if l.OpenFiles > 0 {
		values[syscall.RLIMIT_NOFILE] = l.OpenFiles
	}
	if l.Processes > 0 {
		values[rlimitProcesses] = l.Processes + ownProcesses
	}
	for resource, value := range values {
		if err := lowerLimit(resource, value); err != nil {
			return fmt.Errorf("limit %d cannot be set to %d: %w", resource, value, err)
		}
	}
	return nil
}

func lowerLimit(resource int, value uint64) error {
	var current syscall.Rlimit
	if err := syscall.Getrlimit(resource, &current); err != nil {
		return err
	}
	if value > current.Max {
		value = current.Max
	}
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: value, Max: value})
}

func isExecutable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}
