import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { clientFile, outputOf, runOnNode24 } from "../support/clients/run-client.ts";
import { berthInSuite } from "../support/suite.ts";

const INSPECTOR = clientFile("@modelcontextprotocol/inspector/clients/launcher/build/index.js");

const SKILL = `---
name: tidy-notes
description: Put notes in order. Use it when somebody asks to tidy up.
metadata:
  version: "1.0"
---

# Tidy notes: ä

See [the forms](references/FORMS.md).
`;

interface Report {
  readonly uri: string;
  readonly ok: boolean;
  readonly outcome: string;
  readonly conformance: readonly unknown[];
  readonly files: readonly { readonly status: string }[];
}

describe("real clients and skills", { concurrency: 2 }, () => {
  const berth = berthInSuite({
    texts: { "notes.ts": "/** Adds. */ export function add(a: number, b: number) { return a + b; }\n" },
    beside: {
      "notes.skills/tidy-notes/SKILL.md": SKILL,
      "notes.skills/tidy-notes/references/FORMS.md": "\ufeff# Forms\r\n",
      "notes.skills/tidy-notes/assets/a pixel.png": Uint8Array.of(0x89, 0x50, 0xff, 0x00),
      "notes.skills/work/weekly/SKILL.md": SKILL.replace("tidy-notes", "weekly"),
    },
  });

  for (const [era, path] of [
    ["legacy", "/mcp/notes"],
    ["modern", "/mcp"],
  ]) {
    it(`passes the inspector's checks of skills in the ${era} era at ${path}`, async () => {
      const args = [INSPECTOR, "--cli", `${berth.url}${path}`, "--transport", "http", "--protocol-era", era!];
      // 7 means that a check fails, 8 that one cannot be made, 9 that a skill has no digests.
      const ended = await runOnNode24([...args, "--method", "skills/list", "--verify", "--require-digests"]);
      const lines = outputOf(ended, [0]).trim().split("\n");
      const reports = lines.map((line) => JSON.parse(line) as Report);
      const verdicts = reports.map((each) => [each.uri, each.ok, each.outcome, each.conformance, each.files.length]);
      assert.deepEqual(verdicts, [
        ["skill://notes/tidy-notes/SKILL.md", true, "verified", [], 3],
        ["skill://notes/work/weekly/SKILL.md", true, "verified", [], 1],
      ]);
      assert.ok(reports.every(({ files }) => files.every(({ status }) => status === "verified")));
    });
  }
});
