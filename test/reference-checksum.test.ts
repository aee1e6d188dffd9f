import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";
import { templates } from "./reference.ts";

function checksum(text: string, algorithm = "sha256"): { status: number | null; stdout: string; stderr: string } {
  return spawnSync("/bin/sh", [join(templates, "checksum.sh"), text, algorithm], {
    env: { PATH: "/usr/bin:/bin", text, algorithm },
    encoding: "utf8",
  });
}

test("checksum.sh sums every algorithm over exactly the bytes given", () => {
  for (const algorithm of ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]) {
    const { status, stdout } = checksum("héllo\n", algorithm);
    assert.equal(status, 0);
    assert.equal(stdout, `${createHash(algorithm).update("héllo\n").digest("hex")}\n`);
  }
  assert.equal(checksum("", "b2").stdout, `${createHash("blake2b512").update("").digest("hex")}\n`);
});

test("checksum.sh never takes a text for an option, a path or a command", () => {
  for (const text of ["-n", "--help", "$(id)", "`id`; exit 3", "a\\nb", "*", "'\"", "/etc/passwd", " "]) {
    assert.equal(checksum(text).stdout, `${createHash("sha256").update(text).digest("hex")}\n`, text);
  }
});

test("checksum.sh refuses an algorithm that it does not know, whatever it holds", () => {
  for (const algorithm of ["sha3", "", "../../bin/sh -c id #", "sha256 md5"]) {
    const { status, stdout, stderr } = checksum("x", algorithm);
    assert.deepEqual([status, stdout], [2, ""]);
    assert.match(stderr, /unknown algorithm ".*": use md5, sha1/);
  }
});
