import { isObject, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { isTenantName } from "../../lib/tenant-name.ts";
import { FORMAT, FORMAT_VERSION, type TenantFileHeader } from "./format.ts";
import { isSame, isTime, shortLine } from "./parse-line.ts";

type Complaint = Pick<Problem, "code" | "message">;

export const malformed: Complaint = {
  code: "malformed-line",
  message: "The line is not written as `berth tenant export` writes it",
};

/**
 * The first line of a tenant's file, with all its problems. Without a header, the line does not begin a file of this
 * version, and nothing that follows can be judged.
 */
export function readHeader(
  bytes: Uint8Array,
  limitProblems: (limits: JsonObject) => readonly string[],
): { readonly header?: TenantFileHeader; readonly problems: readonly Complaint[] } {
  const value = shortLine(bytes);
  if (!isObject(value) || value["format"] !== FORMAT) {
    return {
      problems: [{ code: "no-tenant-file", message: "This is no file that `berth tenant export` has written" }],
    };
  }
  if (value["version"] !== FORMAT_VERSION) {
    const found = JSON.stringify(value["version"])?.slice(0, 40);
    const message = `The file is of version ${found} and this Berth reads ${FORMAT_VERSION}; import it with the Berth that wrote it, or a newer one`;
    return { problems: [{ code: "other-version", message }] };
  }

  const problems: Complaint[] = [];
  const complain = (code: string, message: string): void => void problems.push({ code, message });
  const { format, version, berth, tenant, changedAt, limits } = value;
  if (!isSame(bytes, JSON.stringify({ format, version, berth, tenant, changedAt, limits }))) problems.push(malformed);
  if (typeof tenant !== "string" || !isTenantName(tenant)) complain("bad-name", "This is no name of a tenant");
  if (!isObject(limits)) complain("wrong-type", `"limits" must be an object`);
  else for (const wrong of limitProblems(limits as JsonObject)) complain("bad-limit", wrong);
  if (changedAt !== null && !isTime(changedAt)) complain("bad-time", `"changedAt" must be a time, or null`);
  return { header: value as unknown as TenantFileHeader, problems };
}
