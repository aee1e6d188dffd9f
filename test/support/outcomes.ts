import { join } from "node:path";
import type { TestContext } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { type TestBerth, type TestSources } from "./berth.ts";
import { berthFor } from "./suite.ts";
import { fixtures } from "./upstreams.ts";

export const asker = `mcp+node://${join(fixtures, "asker.mjs")}`;

/** The same tools three times: as functions, as scripts and as an upstream (`asker.mjs`). */
const FUNCTIONS = `
import type { Outcome, ToolContext } from "berth";

const stage = { id: "stage", text: "Which stage?", answer_type: { type: "select", options: ["dev", "prod"] } } as const;
const sure = { id: "sure", text: "Really?", answer_type: { type: "boolean" } } as const;

/** Asks twice. */
export async function deploy({ answers }: ToolContext): Promise<Outcome> {
  if (!("stage" in answers)) return { type: "needs_input", question: stage };
  if (!("sure" in answers)) return { type: "needs_input", question: sure };
  return { type: "success", content: \`deployed to \${answers.stage}: \${answers.sure}\` };
}

export function preset({ answers }: ToolContext): Outcome {
  if (!("stage" in answers)) return { type: "needs_input", question: { ...stage, default: "dev" } };
  if (!("sure" in answers)) return { type: "needs_input", question: { ...sure, default: true } };
  return { type: "success", content: \`deployed to \${answers.stage}: \${answers.sure}\` };
}

/**
 * Asks, as a task.
 * @task
 */
export async function later({ answers, root }: ToolContext): Promise<Outcome> {
  if (!("sure" in answers)) return { type: "needs_input", question: sure };
  return { type: "success", content: \`\${root}: \${answers.sure}\` };
}

/** Asks in both ways. */
export async function mixed(context: ToolContext): Promise<Outcome> {
  const { answers } = context;
  if (!("stage" in answers)) return { type: "needs_input", question: stage };
  const schema = { type: "object", properties: { name: { type: "string" } } } as const;
  const { content } = await context.elicit({ message: "Who?", schema });
  if (!("sure" in answers)) return { type: "needs_input", question: sure };
  return { type: "success", content: \`\${answers.stage} \${content?.name} \${answers.sure}\` };
}

const failures = new Map<string, number>();
function fail(key: string, times: number, transient: boolean): Outcome {
  const count = (failures.get(key) ?? 0) + 1;
  failures.set(key, count);
  if (count > times) return { type: "success", content: \`worked at call \${count}\` };
  return { type: "error", message: \`broken at call \${count}\`, trace: ["inner"], transient };
}
export function flaky(key: string, times: number): Outcome {
  return fail(key, times, true);
}
export function broken(key: string, times: number): Outcome {
  return fail(key, times, false);
}
/** @destructive */
export function wipe(key: string, times: number): Outcome {
  return fail(key, times, true);
}
/**
 * @destructive
 * @idempotent
 */
export function clear(key: string, times: number): Outcome {
  return fail(key, times, true);
}
export function thrown(key: string, times: number): string {
  const outcome = fail(key, times, true);
  if (outcome.type === "success") return outcome.content;
  throw Object.assign(new Error("thrown: " + key), { transient: true });
}
export async function told({ answers, options, root, action }: ToolContext): Promise<Record<string, unknown>> {
  return { answers, options, root: root ?? null, action };
}
/** A value that looks like an outcome is a value where the type says so. */
export function value(): { type: "success"; content: string } {
  return { type: "success", content: "a value" };
}
`;

const SHELL = `#!/bin/sh
# Asks twice.
# @noArgs
case "$BERTH_ANSWERS" in
  *'"stage"'*'"sure"'*) printf '{"type":"success","content":"deployed to %s: %s"}' \\
    "$(printf %s "$BERTH_ANSWERS" | sed 's/.*"stage":"\\([a-z]*\\)".*/\\1/')" \\
    "$(printf %s "$BERTH_ANSWERS" | sed 's/.*"sure":\\([a-z]*\\).*/\\1/')" ;;
  *'"stage"'*) echo '{"type":"needs_input","question":{"id":"sure","text":"Really?","answer_type":{"type":"boolean"}}}' ;;
  *) echo '{"type":"needs_input","question":{"id":"stage","text":"Which stage?","answer_type":{"type":"select","options":["dev","prod"]}}}'
esac
`;

const PRESET = SHELL.replace('{"type":"boolean"}', '{"type":"boolean"},"default":true').replace(
  '["dev","prod"]}',
  '["dev","prod"]},"default":"dev"',
);

/** Prints its argument, then its environment if the argument is `told`, and exits with the given code. */
const PRINT = `#!/bin/sh
# Prints a text.
# @param {string} text - What.
# @param {integer} [code=0] - To exit with.
if [ "$1" = told ]; then printf '%s|%s|%s' "$BERTH_ANSWERS" "$BERTH_OPTIONS" "$BERTH_CONTEXT"; else printf %s "$1"; fi
exit "\${2:-0}"
`;

/** Servers `functions`, `deploy`, `preset` and `print` (scripts), and `asker`. */
export const OUTCOMES = {
  texts: { "functions.ts": FUNCTIONS, "deploy.sh": SHELL, "preset.sh": PRESET, "print.sh": PRINT },
  mcps: { asker: { upstream: asker } },
  env: { BERTH_RETRY_MS: "5" },
} satisfies TestSources;

export function startOutcomes(t: TestContext, more: TestSources = {}): Promise<TestBerth> {
  const [mcps, env] = [
    { ...OUTCOMES.mcps, ...more.mcps },
    { ...OUTCOMES.env, ...more.env },
  ];
  return berthFor(t, { ...OUTCOMES, mcps, env });
}

export type Mode = "legacy" | "auto";

/** One client, whose user answers with `answer` and whose questions are then in `asked`. */
export async function openClient(
  t: TestContext,
  url: string,
  mode: Mode,
  answer?: (params: { message: string; requestedSchema: { properties: Record<string, unknown> } }) => object,
): Promise<{ client: Client; asked: string[]; logged: unknown[] }> {
  const asked: string[] = [];
  const logged: unknown[] = [];
  const capabilities = answer ? { elicitation: { form: {} } } : {};
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode } });
  if (answer) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params.message);
      return answer(params as never) as never;
    });
  }
  client.setNotificationHandler("notifications/message", ({ params }) => void logged.push(params.data));
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  t.after(() => client.close());
  return { client, asked, logged };
}
