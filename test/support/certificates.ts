import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Certificate {
  readonly key: string;
  /** It is its own authority. */
  readonly cert: string;
}

/** A certificate for these names; undefined where there is no openssl to make one with. */
export function certificateFor(...names: readonly string[]): Certificate | undefined {
  const folder = mkdtempSync(join(tmpdir(), "berth-certificate-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const all = names.map((name) => (/^[\d.]+$/.test(name) ? `IP:${name}` : `DNS:${name}`)).join(",");
  const made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test -addext";
  try {
    const args = [...made.split(" "), `subjectAltName=${all}`, "-keyout", key, "-out", cert];
    if (spawnSync("openssl", args, { stdio: "ignore" }).status !== 0) return undefined;
    return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
