// Command agentjobs-supervisor is the first program of an agent's pod. It listens for the worker,
// which sends files and the command, and it kills the agent when the worker is gone.
package main

import (
	"fmt"
	"os"
	"runtime"
)

const usage = `usage: agentjobs-supervisor [copy PATH | version]

Without a command, it supervises the agent of a pod, as the pod's first process.
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "agentjobs-supervisor: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 0:
		return supervise()
	case len(arguments) == 2 && arguments[0] == "copy":
		return prepareContainer(arguments[1])
	case len(arguments) == 1 && arguments[0] == execCommand:
		return execAgent()
	case len(arguments) == 1 && arguments[0] == "version":
		fmt.Printf("agentjobs-supervisor, protocol %d, %s\n", protocolVersion, runtime.Version())
		return nil
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}
