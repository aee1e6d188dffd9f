import type { CallShape } from "../discover/discovery.ts";
import type { Executor, GuestOutcome } from "../executor/executor.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Run } from "./tool.ts";

/**
 * Runs a shell definition: each argument is an environment variable under its own name and stands in `$1`, `$2`, …
 * in the order of the parameters; options that are configured for the tool stand in `BERTH_OPTIONS`, as JSON. What it prints is the result; an exit code other than 0 is an error with the
 * end of stderr.
 */
export function scriptRun(
  executor: Executor,
  script: { tenant: string; text: () => Promise<string> },
  shape: CallShape,
  options: { callMs: number; toolOptions?: JsonObject },
): Run {
  const { toolOptions = {} } = options;
  const hasOptions = Object.keys(toolOptions).length > 0;
  const own: Record<string, string> = hasOptions ? { BERTH_OPTIONS: JSON.stringify(toolOptions) } : {};
  return async (args, { signal, deadlineMs }) => {
    const outcome = await executor.runScript({
      tenant: script.tenant,
      script: await script.text(),
      argv: argumentVector(shape, args),
      env: { ...own, ...environment(shape, args) },
      deadlineMs: deadlineMs ?? options.callMs,
      ...(signal && { signal }),
    });
    if (!outcome.ok) return outcome;
    if (outcome.exitCode === 0) return printed(outcome.stdout);
    const said = outcome.stderr.trim() || new TextDecoder().decode(outcome.stdout).trim();
    const message = `exit code ${outcome.exitCode}${said ? `: ${said}` : ""}`;
    return { ok: false, error: { reason: "thrown", message, retriable: false } };
  };
}

function argumentVector(shape: CallShape, args: JsonObject): string[] {
  const last = shape.params.findLastIndex((name) => args[name] !== undefined);
  return shape.params.slice(0, last + 1).map((name) => textOf(args[name]));
}

function environment(shape: CallShape, args: JsonObject): Record<string, string> {
  const given = shape.params.filter((name) => args[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, textOf(args[name])]));
}

/** Scalars as themselves, lists one element a line, everything else as JSON; what is missing is empty. */
function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.map(textOf).join("\n");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function printed(stdout: Uint8Array): GuestOutcome {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(stdout);
    return { ok: true, value: { kind: "text", text } };
  } catch {
    return { ok: true, value: { kind: "bytes", base64: Buffer.from(stdout).toString("base64") } };
  }
}
