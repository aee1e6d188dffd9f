// Subjects of commits follow Conventional Commits (https://www.conventionalcommits.org): those since the last tag, or the last
// 50 if there is no tag. A copy without .git has none; a shallow clone has fewer.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

const FORM = /^(?:feat|fix|perf|refactor|docs|style|test|build|chore|revert)(?:\([a-z0-9,/-]+\))?!?: \S/;
const LENGTH_MAX = 72;

const git = (...args) => execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();

function range() {
  try {
    return `${git("describe", "--tags", "--abbrev=0")}..HEAD`;
  } catch {
    return "-50";
  }
}

const lines = existsSync(".git") ? git("log", "--format=%h %s", range()).split("\n").filter(Boolean) : [];
for (const line of lines) {
  const [commit, subject] = [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)];
  if (subject.startsWith("Merge ")) continue;
  const problems = [];
  if (!FORM.test(subject)) problems.push("is not `type(scope): subject` with a type of docs/contributing.md");
  if (subject.length > LENGTH_MAX) problems.push(`has ${subject.length} characters, and may have ${LENGTH_MAX}`);
  if (subject.endsWith(".")) problems.push("ends with a full stop");
  if (problems.length > 0) process.exitCode = 1;
  for (const problem of problems) console.error(`${commit}: "${subject}" ${problem}: reword it by git rebase -i`);
}
if (!process.exitCode) console.error(`Each of ${lines.length} commit subjects follows Conventional Commits.`);
