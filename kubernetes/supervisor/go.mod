module agentjobs.dev/supervisor

go 1.19
