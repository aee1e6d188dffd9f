import assert from "node:assert/strict";
import { test } from "node:test";
import { interpreterProblem, readInterpreter } from "../../src/processes/interpreter.ts";

test("reads the first line of a script as the kernel and env do", () => {
  const lines: [line: string, program: readonly string[]][] = [
    ["", ["/bin/sh"]],
    ["#!/bin/bash", ["/bin/bash"]],
    ["#! \t/bin/bash\t-eu  ", ["/bin/bash", "-eu"]],
    ["\uFEFF#!/bin/sh -e\r", ["/bin/sh", "-e"]],
    ["#!/usr/bin/bash --posix", ["/usr/bin/bash", "--posix"]],
    ["#!/usr/bin/env bash", ["/usr/bin/bash"]],
    ["#!/bin/env /bin/dash", ["/bin/dash"]],
    ["#!/usr/bin/env -S bash -euo pipefail", ["/usr/bin/bash", "-euo", "pipefail"]],
    [`#!/usr/bin/env -Sbash -c 'a  "b"' "c'"d`, ["/usr/bin/bash", "-c", 'a  "b"', "c'd"]],
    ["#!/usr/bin/perl -w -T", ["/usr/bin/perl", "-w -T"]],
    ["#!/usr/bin/awk -f", ["/usr/bin/awk", "-f"]],
  ];
  for (const [line, [file, ...args]] of lines) assert.deepEqual(readInterpreter(`${line}\necho`), { file, args }, line);
});

test("refuses a first line with which no call can run, and says what to write", () => {
  const installed = "; installed are sh, bash, .*";
  const lines: [line: string, reason: string][] = [
    ["#!", `names no interpreter${installed}`],
    ["#!/usr/bin/env", `names no interpreter${installed}`],
    ["#!/usr/bin/fish", `asks for "/usr/bin/fish", which is not installed where scripts run${installed}`],
    ["#!/usr/bin/env fish", `asks for "fish", which is not installed where scripts run${installed}`],
    ["#!bash", 'needs the whole path of its interpreter; write "#!/usr/bin/env bash"'],
    ["#!bin/bash", 'needs the whole path .* write "#!/usr/bin/env bash"'],
    ["#!/tmp/bash", `asks for "/tmp/bash", which is not in a system folder such as /usr${installed}`],
    ["#!/usr/bin/../../tmp/bash", `asks for "/usr/bin/../../tmp/bash", which .*`],
    ["#!/usr/bin", `asks for "/usr/bin", which .*`],
    ["#!/usr/bin/env ../bin/bash", `asks for "../bin/bash", which .*`],
    [
      "#!/bin/bash -euo pipefail",
      'gives "-euo pipefail" to /bin/bash as one argument, as Linux does; write "#!/usr/bin/env -S bash -euo pipefail", or "set -euo pipefail" below it',
    ],
    ["#!/usr/bin/python3 -u -B", '.* write "#!/usr/bin/env -S python3 -u -B"'],
    ["#!/usr/bin/env bash -e", 'makes env look for one program named "bash -e"; write "#!/usr/bin/env -S bash -e"'],
    ["#!/usr/bin/env node", "asks for node, which needs more memory than scripts have; .*"],
    ["#!/bin/bash -o", "ends with the option -o, which would take the script's path as its value; .*"],
    ["#!/usr/bin/env -S bash -ec", "ends with the option -ec, .*"],
    ...[
      "-i bash",
      "PATH=/tmp",
      "-S PATH=/tmp bash",
      "-S -u HOME bash",
      "-S bash \\c",
      "-S ${SHELL}",
      "-S bash 'a",
      "-S bash #",
    ].map((argument): [string, string] => [
      `#!/usr/bin/env ${argument}`,
      "can only pass env an interpreter and its options.*",
    ]),
    [`#!/bin/bash ${"x".repeat(255)}`, "has more than 255 characters.*"],
  ];
  for (const [line, reason] of lines) {
    const read = readInterpreter(`${line}\necho`);
    assert.ok(typeof read === "string" && new RegExp(`^${reason}$`).test(read), `${line}: ${JSON.stringify(read)}`);
  }
});

test("places the problem at the first line, and reads a hostile one in no time", () => {
  const problem = interpreterProblem("a.sh", "#!/usr/bin/fish\r\necho");
  const { frame, message, ...rest } = problem!;
  assert.match(message, /^The first line asks for /);
  assert.deepEqual(rest, { code: "bad-interpreter", severity: "error", file: "a.sh", line: 1, column: 1 });
  assert.equal(frame, "> 1 | #!/usr/bin/fish\n    | ^^^^^^^^^^^^^^^");
  for (const part of ["\r", " ", "'", '"', "'\""])
    assert.equal(typeof readInterpreter(`#!/usr/bin/env -S ${part.repeat(1_000_000)}x`), "string");
});
