"""What platforms print when they refuse a push, as people have reported it.

docs/platforms.md names the sources.
"""

GITHUB_SECRET = """error: GH013: Repository rule violations found for refs/heads/agentjobs/x.

- GITHUB PUSH PROTECTION
  —————————————————————————————————————————
    Resolve the following violations before pushing again

    - Push cannot contain secrets


     (?) Learn how to resolve a blocked push
     https://docs.github.com/code-security/secret-scanning/pushing-a-branch-blocked-by-push-protection


      —— DeepSeek API Key ——————————————————————————————————
       locations:
         - commit: b6ba2be62ff7d6c34065648997f6f53b44ab2092
           path: .env:6
         - commit: b6ba2be62ff7d6c34065648997f6f53b44ab2092
           path: src/api keys.py:12

       (?) To push, remove secret from commit(s) or follow this URL to allow the secret.
       https://github.com/acme/shop/security/secret-scanning/unblock-secret/2gakJrAududURpxl

"""

GITHUB_RULESET = """error: GH013: Repository rule violations found for refs/heads/agentjobs/x.
Review all repository rules at https://github.com/acme/shop/rules?ref=refs%2Fheads%2Fagentjobs%2Fx

- Cannot create ref due to creations being restricted.

"""

GITHUB_SIGNATURES = """error: GH013: Repository rule violations found for refs/heads/agentjobs/x.
Review all repository rules at https://github.com/acme/shop/rules?ref=refs%2Fheads%2Fagentjobs%2Fx

- Commits must have verified signatures.
  Found 1 violation:

  b6ba2be62ff7d6c34065648997f6f53b44ab2092

"""

GITHUB_MERGE_QUEUE = """error: GH006: Protected branch update failed for refs/heads/agentjobs/x.
error: A pull request for this branch has been added to a merge queue. Branches that
are queued for merging cannot be updated. To modify this branch, dequeue the
associated pull request.
"""

GITHUB_PROTECTED = """error: GH006: Protected branch update failed for refs/heads/agentjobs/x.

- Changes must be made through a pull request.
"""

GITHUB_LARGE_FILE = """error: Trace: 83e8ea79de23baec9c518a4d315dd573
error: See https://gh.io/lfs for more information.
error: File data/model.bin is 122.92 MB; this exceeds GitHub's file size limit of 100.00 MB
error: GH001: Large files detected. You may want to try Git Large File Storage - https://git-lfs.github.com.
"""

GITHUB_APP_WORKFLOW = (
    "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml`"
    " without `workflows` permission"
)
GITHUB_TOKEN_WORKFLOW = (
    "refusing to allow a Personal Access Token to create or update workflow"
    " `.github/workflows/ci.yml` without `workflow` scope"
)

GITLAB_SECRET = """GitLab:
PUSH BLOCKED: Secrets detected in code changes

Secret push protection found the following secrets in commit: 37e54de5e78c31d9e3c3821fd15f7069e3d3
-- test.txt:2 | GitLab Personal Access Token

To push your changes you must remove the identified secrets.
"""

GITLAB_MESSAGE_RULE = "GitLab: Commit message does not follow the pattern '^(feat|fix): .{1,72}$'\n"
GITLAB_FILE_RULE = (
    'GitLab: File name deploy/dfc.keystore was prohibited by the pattern "(jks|keystore)$".\n'
)
GITLAB_EMAIL_RULE = (
    "GitLab: Committer's email 'agentjobs@localhost' does not follow the pattern '@example.com$'\n"
)
GITLAB_PROTECTED = (
    "GitLab: You are not allowed to push code to protected branches on this project.\n"
)
GITEA_PROTECTED = "Gitea: Not allowed to push to protected branch agentjobs/x\n"
