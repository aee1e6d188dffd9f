import { createHash } from "node:crypto";
import { limitsAfterImport, tenantLimitProblems } from "../../src/admission/tenant-limits.ts";
import { importTenant, type Imported, type ImportOptions } from "../../src/features/tenant-files/import-tenant.ts";
import { tenantFile } from "../../src/features/tenant-files/tenant-file.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { gathered } from "./gathered.ts";
import { temporaryFolder, type Ending } from "./temporary-folder.ts";

/** A store in a folder of its own, closed when the test is done. */
export async function freshStore(t: Ending): Promise<Store & SecretStore & { dataDir: string }> {
  let store: (Store & SecretStore) | undefined;
  t.after(() => store?.close());
  const dataDir = temporaryFolder(t);
  store = await openSqliteStore({ dataDir });
  return { ...store, dataDir };
}

/** The text of a tenant's file. */
export async function exported(store: Store, tenant: string): Promise<string> {
  const snapshot = await store.tenants.snapshot(tenant);
  try {
    return (await gathered(tenantFile(snapshot, { tenant, berth: "0.1.0" }))).join("");
  } finally {
    await snapshot.close();
  }
}

export function imported(
  store: Store,
  file: string | Uint8Array,
  options: Partial<Omit<ImportOptions, "limits">> & { limits?: Partial<ImportOptions["limits"]> } = {},
): Promise<Imported> {
  return importTenant(store.tenants, piecesOf(Buffer.from(file)), {
    by: "import",
    replace: false,
    limitProblems: tenantLimitProblems,
    limitsAfter: (own, ofFile) => limitsAfterImport(defaultLimits, own, ofFile),
    ...options,
    limits: { ...defaultLimits, ...options.limits },
  });
}

/** All problems of a file, each with its line. */
export async function problemsOf(
  store: Store,
  file: string | Uint8Array,
  options: Parameters<typeof imported>[2] = {},
): Promise<string[]> {
  try {
    await imported(store, file, { as: "taken", ...options });
    return [];
  } catch (error) {
    const { problems } = (error as { data: { problems: { code: string; line?: number }[] } }).data;
    return problems.map(({ code, line }) => `${line ?? "-"} ${code}`);
  }
}

/** A file of these lines with a valid end, as an attacker who knows the format would write it. */
export function forged(lines: readonly string[]): string {
  const body = lines.map((line) => `${line}\n`).join("");
  const count = (start: string): number => lines.filter((line) => line.startsWith(start)).length;
  const [contents, changes, secrets, state] = ["content", "change", "secret", "state"].map((of) => count(`{"${of}"`));
  const end = { contents, changes, secrets, state };
  return `${body}${JSON.stringify({ end, sha256: createHash("sha256").update(body).digest("hex") })}\n`;
}

/** The lines without the final one. */
export function linesOf(file: string): string[] {
  return file.split("\n").slice(0, -2);
}

/** Pieces that end anywhere, as they come from a disk or a pipe. */
async function* piecesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += 1000) yield bytes.subarray(start, start + 1000);
}
