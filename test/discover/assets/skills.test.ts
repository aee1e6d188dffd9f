import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { findSkills } from "../../../src/discover/assets/skills.ts";
import { compileDefinition } from "../../../src/discover/compile.ts";
import { gatherDefinition } from "../../../src/discover/gather.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { folderWith } from "../../support/suite.ts";

const SKILL = "---\nname: tidy\ndescription: Puts notes in order.\n---\n\n# Tidy\n";

const digest = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");

function found(files: Record<string, string>, entry = "notes.ts") {
  return findSkills({ entry, files: { [entry]: "", ...files } });
}

/** Each as `line:column message`. */
function told(files: Record<string, string>): string[] {
  return found(files).problems.map(({ severity, line, column, message }) =>
    [severity === "warning" ? "warning:" : `${line ?? ""}:${column ?? ""}`, message].join(" "),
  );
}

const ofText = (text: string) => told({ "notes.skills/tidy/SKILL.md": text });

describe("a folder beside a definition", () => {
  it("is its skills: each folder in it that has a SKILL.md, with every file", () => {
    const { skills, problems } = found({
      "notes.skills/tidy/SKILL.md": SKILL,
      "notes.skills/tidy/scripts/run.py": "print(1)\n",
      "notes.skills/tidy/pixel.png": Buffer.from([0, 255]).toString("base64"),
      "notes.skills/work/weekly/SKILL.md": SKILL.replace("tidy", "weekly"),
    });
    assert.deepEqual(problems, []);
    assert.deepEqual(
      skills.map(({ path, frontmatter }) => [path, frontmatter.name]),
      [
        ["tidy", "tidy"],
        ["work/weekly", "weekly"],
      ],
    );
    assert.deepEqual(skills[0]!.files, [
      { path: "SKILL.md", digest: digest(SKILL), size: SKILL.length },
      { path: "pixel.png", digest: digest(Uint8Array.of(0, 255)), size: 2 },
      { path: "scripts/run.py", digest: digest("print(1)\n"), size: 9 },
    ]);
  });

  it("may nest them: the outer one has the files of the inner one, too", () => {
    const { skills } = found({
      "notes.skills/tidy/SKILL.md": SKILL,
      "notes.skills/tidy/deep/SKILL.md": SKILL.replace("tidy", "deep"),
    });
    assert.deepEqual(
      skills.map(({ path, files }) => [path, files.map((file) => file.path)]),
      [
        ["tidy", ["SKILL.md", "deep/SKILL.md"]],
        ["tidy/deep", ["SKILL.md"]],
      ],
    );
  });

  it("gives the whole frontmatter, as JSON", () => {
    const text = SKILL.replace(
      "---\n\n",
      'license: MIT\nmetadata:\n  version: "1.0"\nx-own: [1, true, null, 2024-01-01]\n---\n\n',
    );
    assert.deepEqual(found({ "notes.skills/tidy/SKILL.md": text }).skills[0]!.frontmatter, {
      name: "tidy",
      description: "Puts notes in order.",
      license: "MIT",
      metadata: { version: "1.0" },
      "x-own": [1, true, null, "2024-01-01"],
    });
  });

  it("may have lines that end as Windows writes them", () => {
    assert.equal(found({ "notes.skills/tidy/SKILL.md": SKILL.replaceAll("\n", "\r\n") }).skills.length, 1);
  });

  it("says of each file that is in no skill why it is not served", () => {
    assert.deepEqual(
      told({
        "notes.skills/README.md": "",
        "notes.skills/SKILL.md": SKILL,
        "notes.skills/tidy/skill.md": SKILL,
        "notes.skills/tidy/.env": "TOKEN=1",
        "other.skills/tidy/SKILL.md": SKILL,
        "notes.skills/tidy/a\u0007.md": "",
        [`notes.skills/tidy/${"b".repeat(256)}`]: "",
      }),
      [
        'warning: It is not served: names that begin with a dot are ignored, such as ".env"',
        "warning: It is not served: its name has characters that file names cannot contain",
        "warning: It is not served: a name has at most 255 bytes",
        "warning: It is not served: the skills of this definition are in notes.skills/",
        "warning: It belongs to no skill: none of its parent folders has a SKILL.md",
        "warning: A skill has a folder of its own: move it to notes.skills/<name of the skill>/SKILL.md",
        "warning: Rename it to SKILL.md: hosts read no other name",
      ],
    );
  });
});

describe("the frontmatter of a skill", () => {
  it("must be YAML that every reader reads alike, with the name of its folder and a description", () => {
    const cases: [frontmatter: string, problem: RegExp][] = [
      ["name: tidy\ndescription: [a", /^\d+:\d+ The frontmatter is not valid YAML: /],
      ["name: tidy\nname: other\ndescription: a", /^3:1 .*unique/],
      ["name: &a tidy\ndescription: *a", /^3:14 Write the value again/],
      ["name: tidy\ndescription: a\nsize: .inf", /^4:7 Clients receive the frontmatter as JSON/],
      ["name: tidy\ndescription: !own a", /^3:14 The frontmatter is not valid YAML/],
      ["- tidy", /^2:1 The frontmatter must have fields/],
      ["description: a", /^2:1 The frontmatter needs the name of the skill: name: tidy$/],
      ["name: Tidy\ndescription: a", /^2:7 A skill's name must have 1 to 64 characters/],
      ["name: -a--b\ndescription: a", /^2:7 A skill's name must have/],
      [`name: ${"a".repeat(65)}\ndescription: a`, /^2:7 A skill's name must have 1 to 64 characters/],
      [
        "name: neat\ndescription: a",
        /^2:7 The skill is named "neat", but its folder "tidy": rename the folder to "neat", or write name: tidy$/,
      ],
      ["name: tidy", /^2:1 The frontmatter needs a description/],
      ["name: tidy\ndescription: '  '", /^3:14 The frontmatter needs a description/],
      [`name: tidy\ndescription: ${"a".repeat(1025)}`, /^3:14 The description has 1025/],
    ];
    for (const [frontmatter, problem] of cases) assert.match(ofText(`---\n${frontmatter}\n---\n`).join(), problem);
    assert.deepEqual(ofText(`---\nname: tidy\ndescription: ${"ä".repeat(1024)}\n---\n`), []);
    assert.match(ofText("# Tidy\n")[0]!, /^1:1 A skill begins with its frontmatter: a line ---/);
    assert.match(ofText("---\nname: tidy\n")[0]!, /^1:1 The frontmatter has no end: write a line ---/);
  });

  it("is told where another field is not as it should be, and is served", () => {
    const text = SKILL.replace("---\n\n", "compatibility: 7\nallowed-tools: [a]\nmetadata:\n  version: 1\n---\n\n");
    const { skills, problems } = found({ "notes.skills/tidy/SKILL.md": text });
    assert.equal(skills.length, 1);
    assert.deepEqual(rows(problems, "severity", "line"), ["warning 4", "warning 7", "warning 5"]);
  });
});

describe("a skill beyond a limit is left out, and the others are found", () => {
  const other = { "notes.skills/other/SKILL.md": SKILL.replace("tidy", "other") };
  const files = { ...other, "notes.skills/tidy/SKILL.md": SKILL, "notes.skills/tidy/a.md": "12345" };
  for (const [limit, value, message] of [
    ["skillFiles", 1, "The skill has 2 files; the limit is 1"],
    ["skillBytes", SKILL.length + 4, `The skill has ${SKILL.length + 5} bytes; the limit is ${SKILL.length + 4}`],
  ] as const) {
    it(`of ${limit}`, (t) => {
      t.after(lower({ [limit]: value }));
      const { skills, problems } = found(files);
      assert.deepEqual([skills.map(({ path }) => path), problems.map((each) => each.message)], [["other"], [message]]);
    });
  }

  it("of skillFrontmatterBytes", (t) => {
    t.after(lower({ skillFrontmatterBytes: 20 }));
    assert.match(ofText(SKILL)[0]!, /the limit is 20/);
  });
});

describe("hostile frontmatter", () => {
  it("neither hangs nor grows nor throws", () => {
    const laughs = Array.from({ length: 30 }, (_, index) => `a${index + 1}: &a${index + 1} [*a${index}, *a${index}]`);
    for (const yaml of [
      ["a0: &a0 x", ...laughs].join("\n"),
      `a: ${"[".repeat(8_000)}`,
      `a: ${"{a: ".repeat(3_000)}`,
      "? [a]\n: b",
      "__proto__: {polluted: true}",
      "a: !!js/function 'x'",
      "\u0000",
    ]) {
      const problems = ofText(`---\n${yaml}\n---\n`);
      assert.ok(problems.length > 0, yaml.slice(0, 40));
    }
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });
});

describe("skills on the disk", () => {
  it("are files of the definition, of scripts too", async () => {
    const root = folderWith({
      "notes.sh": "#!/bin/sh\n",
      "notes.skills/tidy/SKILL.md": SKILL,
      "notes.skills/tidy/.git/config": "",
      "notes.skills/tidy/deep/er/a.png": Uint8Array.of(0, 255),
      "other.skills/tidy/SKILL.md": SKILL,
    });
    const { files, problems } = await gatherDefinition(root, "notes.sh");
    assert.deepEqual(
      [Object.keys(files), problems],
      [["notes.sh", "notes.skills/tidy/SKILL.md", "notes.skills/tidy/deep/er/a.png"], []],
    );
  });

  it("follow no link, neither of a file nor of a folder", async () => {
    const outside = folderWith({ "secret.md": "secret", "tidy/SKILL.md": SKILL });
    const root = folderWith({ "notes.ts": "", "notes.skills/tidy/SKILL.md": SKILL });
    await symlink(join(outside, "secret.md"), join(root, "notes.skills/tidy/secret.md"));
    await symlink(outside, join(root, "notes.skills/tidy/folder"));
    await symlink("..", join(root, "notes.skills/round"));
    const { files, problems } = await gatherDefinition(root, "notes.ts");
    assert.deepEqual(Object.keys(files), ["notes.skills/tidy/SKILL.md", "notes.ts"]);
    assert.deepEqual(rows(problems, "code", "file"), [
      "outside notes.skills/round",
      "outside notes.skills/tidy/folder",
      "outside notes.skills/tidy/secret.md",
    ]);
    await rm(join(root, "notes.skills"), { recursive: true });
    await symlink(outside, join(root, "notes.skills"));
    assert.deepEqual(rows((await gatherDefinition(root, "notes.ts")).problems, "file"), ["notes.skills"]);
  });

  it("count for the limits of the definition", async (context) => {
    const root = folderWith({
      "notes.ts": "",
      ...Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`notes.skills/tidy/${index}.md`, "x"])),
    });
    context.after(lower({ sourceFiles: 4 }));
    const { files, problems } = await gatherDefinition(root, "notes.ts");
    assert.equal(Object.keys(files).length, 4);
    assert.match(problems[0]!.message, /more than 4 files/);
  });
});

describe("scripts in a skill", () => {
  const notes = { language: "typescript", server: "notes", entry: "notes.ts" } as const;

  it("are no code of the definition", async () => {
    const files = {
      "notes.ts": "export function add(a: number) { return a; }",
      "notes.skills/tidy/SKILL.md": SKILL,
      "notes.skills/tidy/run.ts": 'import left from "left-pad"; import(name); export const x: number = "no";',
      "notes.skills/tidy/types.d.ts": "declare function add(a: string): string;",
    };
    const compiled = await compileDefinition("compile", { ...notes, files });
    assert.deepEqual(compiled.problems, []);
    assert.ok(compiled.bundle);
    assert.equal(compiled.skills?.[0]?.files.length, 3);
  });

  it("may be read as texts by it", async () => {
    const files = {
      "notes.ts": 'import text from "./notes.skills/tidy/SKILL.md"; export function help() { return text; }',
      "notes.skills/tidy/SKILL.md": SKILL,
    };
    const compiled = await compileDefinition("compile", { ...notes, files });
    assert.deepEqual(compiled.problems, []);
    assert.match(compiled.bundle!, /Puts notes in order/);
  });
});
