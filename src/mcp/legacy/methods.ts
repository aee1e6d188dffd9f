import { failure } from "../../host/offers/content.ts";
import { jsonOf } from "../../host/offers/long-result.ts";
import { BerthError } from "../../lib/errors.ts";
import { isLogLevel, LOG_LEVELS } from "../../lib/log-level.ts";
import type { Text } from "../../lib/long-text.ts";
import { completion, requestedPrompt, requestedResource, requestedTool, requestedUri } from "../methods/calls.ts";
import { listPage } from "../methods/lists.ts";
import { checkSkills, folderPage, requestedSkill } from "../methods/skills.ts";
import { callOtherMethod, isNativeName } from "../protocol.ts";
import { runUntilAnswered, type Unanswered } from "./ask.ts";
import type { Legacy } from "./legacy.ts";
import type { LegacyCall, Session } from "./session.ts";
import { legacyShape } from "./shape.ts";

/**
 * Methods of the revisions from 2024-11-05 to 2025-11-25, and native calls. Results have the shape of the revision.
 * Resolves to the JSON text of the result; rejects with `BerthError` for a protocol error.
 */
export async function callLegacyMethod(legacy: Legacy, call: LegacyCall): Promise<Text> {
  try {
    return await callMethod(legacy, call);
  } catch (error) {
    throw isNativeName(call.method) ? error : legacyError(error);
  }
}

function callMethod(legacy: Legacy, call: LegacyCall): Text | Promise<Text> {
  switch (call.method) {
    case "tools/call":
      return callTool(legacy, call);
    case "tools/list":
      return listPage("tools", call, legacyShape(call.client.version));
    case "resources/read":
      return readResource(legacy, call);
    case "resources/list":
      return listPage("resources", call, legacyShape(call.client.version));
    case "resources/templates/list":
      return listPage("resourceTemplates", call, legacyShape(call.client.version));
    case "resources/subscribe":
      return subscribe(legacy, call);
    case "resources/unsubscribe":
      return unsubscribe(legacy, call);
    case "prompts/get":
      return getPrompt(legacy, call);
    case "prompts/list":
      return listPage("prompts", call, legacyShape(call.client.version));
    case "completion/complete":
      return completion(call).then((result) => JSON.stringify(result));
    case "skills/list":
      checkSkills(call);
      return listPage("skills", call, legacyShape(call.client.version));
    case "skills/get":
      checkSkills(call);
      return JSON.stringify({ skill: requestedSkill(call) });
    case "resources/directory/read":
      checkSkills(call);
      return JSON.stringify(folderPage(call));
    case "logging/setLevel":
      return setLevel(legacy, call);
    case "ping":
      return "{}";
    default:
      return callOtherMethod(legacy, call);
  }
}

/** Before 2026-07-28, a missing resource has its own error code (2025-11-25 `server/resources`). */
function legacyError(error: unknown): unknown {
  if (!(error instanceof BerthError) || error.code !== "resource_not_found") return error;
  return new BerthError("legacy_resource_not_found", error.detail, { ...(error.data && { data: error.data }) });
}

/** `tools/call`. Any failure inside a tool is a result. */
async function callTool(legacy: Legacy, call: LegacyCall): Promise<Text> {
  const { tool, args } = requestedTool(call);
  const outcome = await runUntilAnswered(legacy.limits.answerMs, call, (options) => tool.call(args, options));
  const result =
    "unanswered" in outcome
      ? failure(`The tool "${String(call.params["name"])}" did not finish: ${outcome.unanswered}`)
      : outcome;
  return legacyShape(call.client.version).callResult(tool.contract, result);
}

async function readResource(legacy: Legacy, call: LegacyCall): Promise<Text> {
  const resource = await requestedResource(call);
  return jsonOf(unwrap(await runUntilAnswered(legacy.limits.answerMs, call, (options) => resource.read(options))));
}

async function getPrompt(legacy: Legacy, call: LegacyCall): Promise<Text> {
  const { prompt, args } = requestedPrompt(call);
  const outcome = await runUntilAnswered(legacy.limits.answerMs, call, (options) => prompt.get(args, options));
  return jsonOf(legacyShape(call.client.version).promptResult(unwrap(outcome)));
}

function unwrap<Outcome extends object>(outcome: Outcome | Unanswered): Outcome {
  if ("unanswered" in outcome) throw new BerthError("guest_failed", outcome.unanswered);
  return outcome;
}

/** Answers after the change is stored, so that it survives the process. */
async function setLevel({ sessions }: Legacy, call: LegacyCall): Promise<string> {
  const session = requireSession(call);
  const { level } = call.params;
  if (!isLogLevel(level)) {
    throw new BerthError("invalid_params", `"level" must be one of ${LOG_LEVELS.join(", ")}`);
  }
  await sessions.change(session, { level });
  return "{}";
}

async function subscribe({ sessions }: Legacy, call: LegacyCall): Promise<string> {
  const session = requireSession(call);
  const uri = requestedUri(call);
  if (uri.length > URI_CHARACTERS_MAX) {
    throw new BerthError("invalid_params", `the "uri" of a subscription has at most ${URI_CHARACTERS_MAX} characters`);
  }
  if (!(await call.catalog.resource(uri))) throw new BerthError("resource_not_found", uri, { data: { uri } });
  await sessions.change(session, { subscribe: uri });
  return "{}";
}

/** Sessions store their subscriptions, so they must be small. */
const URI_CHARACTERS_MAX = 2_048;

async function unsubscribe({ sessions }: Legacy, call: LegacyCall): Promise<string> {
  await sessions.change(requireSession(call), { unsubscribe: requestedUri(call) });
  return "{}";
}

function requireSession({ client, method }: LegacyCall): Session {
  if (client.peer) return client.peer;
  throw new BerthError("invalid_request", `${method} needs a session from initialize; send Mcp-Session-Id`);
}
