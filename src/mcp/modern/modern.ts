import type { Checks } from "../../host/checks/checks.ts";
import type { Host } from "../../host/host.ts";
import type { Catalog, InputRequired } from "../../host/offers/catalog.ts";
import { LongObject } from "../../host/offers/long-result.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import type { Log } from "../../lib/log.ts";
import type { Text } from "../../lib/long-text.ts";
import type { Sealer } from "../../lib/seal.ts";
import { methodErrorAnswer } from "../error-answer.ts";
import { resultText, type Request } from "../json-rpc.ts";
import {
  callOptions,
  completion,
  methodCall,
  requestedPrompt,
  requestedResource,
  requestedTool,
} from "../methods/calls.ts";
import { listPage, type ListForm } from "../methods/lists.ts";
import { checkSkills, folderPage, requestedSkill } from "../methods/skills.ts";
import {
  callOtherMethod,
  type Answer,
  type CallNatively,
  type ClientLogs,
  type MethodCall,
  type Post,
  type RequestTarget,
} from "../protocol.ts";
import { SUPPORTED_VERSIONS } from "../revisions.ts";
import { serverCapabilities, checkOffered } from "./capabilities.ts";
import { checkRequest } from "./check-request.ts";
import { listen } from "./listen.ts";
import { Listeners } from "./notify-listeners.ts";
import { ask, isRepeated, withAnswers } from "./questions.ts";
import { ResultWriter } from "./results.ts";
import type { TaskLimits } from "./tasks/task-runner.ts";
import type { TaskRecords } from "./tasks/task-store.ts";
import { Tasks, taskTool, type TasksParts } from "./tasks/tasks.ts";

/**
 * The modern era, 2026-07-28 and later: no handshake and no session. Each request states its terms, and the client
 * carries any open state. Only listening streams and tasks outlive their request. This file takes a request from its
 * checks to the text of its answer, independent of HTTP libraries and sockets.
 */
export interface Modern extends ModernOptions {
  readonly writer: ResultWriter;
  readonly lists: ListForm;
  readonly listeners: Listeners;
  readonly tasks: Tasks;
  /** Aborted at shutdown: everything that stays open ends with its result. */
  readonly closing: Cancellation;
}

export interface ModernOptions {
  readonly host: Host;
  readonly callNatively?: CallNatively | undefined;
  readonly berthVersion: string;
  readonly sealer: Sealer;
  readonly records: TaskRecords;
  readonly cluster: TasksParts["cluster"];
  readonly accessRequired?: boolean;
  /** Reads header values from long arguments. Without it, no arguments are long. */
  readonly checks?: Pick<Checks, "scalarsIn">;
  readonly limits: TaskLimits;
  readonly log: Log;
  readonly logs: ClientLogs;
}

export function createModern(options: ModernOptions): Modern {
  const { host, berthVersion, sealer, records, cluster, accessRequired, limits, log } = options;
  const writer = new ResultWriter(berthVersion);
  const listeners = new Listeners(host);
  const tasks = new Tasks({ host, sealer, records, cluster, writer, listeners, limits, log });
  const lists: ListForm = {
    name: "2026-07-28",
    listItem: (_list, item) => item,
    listPage: (catalog, page) => String(cacheable({ writer, accessRequired }, catalog, page)),
  };
  return { ...options, writer, listeners, tasks, lists, closing: new Cancellation() };
}

/** Answers a request. Throws `BerthError`, or rejects with one, for a request that fails the checks of the era. */
export async function answerModern(
  modern: Modern,
  place: RequestTarget,
  post: Post,
  request: Request,
): Promise<Answer> {
  const checked = checkRequest(request, post, place, modern.checks);
  const client = checked instanceof Promise ? await checked : checked;
  const call = methodCall(place, post, request, client, modern.logs);
  try {
    return { status: 200, body: resultText(call.id, await callMethod(modern, call)) };
  } catch (error) {
    return methodErrorAnswer(modern.log, call, error, "modern");
  }
}

/** The JSON text of the result. Throws `BerthError` for a protocol error. */
function callMethod(modern: Modern, call: MethodCall): Text | Promise<Text> {
  switch (call.method) {
    case "tools/call":
      return callTool(modern, call);
    case "tools/list":
      checkOffered(call, "tools");
      return listPage("tools", call, modern.lists);
    case "resources/read":
      return readResource(modern, call);
    case "resources/list":
      checkOffered(call, "resources");
      return listPage("resources", call, modern.lists);
    case "resources/templates/list":
      checkOffered(call, "resources");
      return listPage("resourceTemplates", call, modern.lists);
    case "prompts/get":
      return getPrompt(modern, call);
    case "prompts/list":
      checkOffered(call, "prompts");
      return listPage("prompts", call, modern.lists);
    case "completion/complete":
      return complete(modern, call);
    case "skills/list":
      checkSkills(call);
      return listPage("skills", call, modern.lists);
    case "skills/get":
      return getSkill(modern, call);
    case "resources/directory/read":
      checkSkills(call);
      return modern.writer.write(call.catalog, "complete", folderPage(call));
    case "server/discover":
      return cacheable(modern, call.catalog, discovery(call.catalog));
    case "subscriptions/listen":
      return listen(modern, call);
    case "tasks/get":
      return modern.tasks.get(call);
    case "tasks/update":
      return modern.tasks.update(call);
    case "tasks/cancel":
      return modern.tasks.cancel(call);
    default:
      return callOtherMethod(modern, call);
  }
}

/** `tools/call`. Any failure inside a tool is a result. */
async function callTool(modern: Modern, request: MethodCall): Promise<Text> {
  checkOffered(request, "tools");
  const call = isRepeated(request) ? await withAnswers(modern, request) : request;
  const asTask = taskTool(call);
  if (asTask) return modern.tasks.call(call, asTask);
  const { tool, args } = requestedTool(call);
  const options = callOptions(call);
  const outcome = await tool.call(args, tool.task ? { ...options, refusesTasks: true } : options);
  if ("inputRequests" in outcome) return askClient(modern, call, outcome);
  return modern.writer.write(call.catalog, "complete", outcome);
}

async function readResource(modern: Modern, request: MethodCall): Promise<Text> {
  checkOffered(request, "resources");
  const call = isRepeated(request) ? await withAnswers(modern, request) : request;
  const resource = await requestedResource(call);
  const outcome = await resource.read(callOptions(call));
  if ("inputRequests" in outcome) return askClient(modern, call, outcome);
  // The content of a resource may change at any time and depend on the principal.
  const result = outcome instanceof LongObject ? outcome.with(UNCACHED) : { ...outcome, ...UNCACHED };
  return modern.writer.write(call.catalog, "complete", result);
}

async function getPrompt(modern: Modern, request: MethodCall): Promise<Text> {
  checkOffered(request, "prompts");
  const call = isRepeated(request) ? await withAnswers(modern, request) : request;
  const { prompt, args } = requestedPrompt(call);
  const outcome = await prompt.get(args, callOptions(call));
  if ("inputRequests" in outcome) return askClient(modern, call, outcome);
  return modern.writer.write(call.catalog, "complete", outcome);
}

/** The result that asks; only the three methods above may be answered with it (2026-07-28 `basic/patterns/mrtr`). */
function askClient(modern: Modern, call: MethodCall, inputRequired: InputRequired): Text {
  return modern.writer.write(call.catalog, "input_required", ask(modern, call, inputRequired));
}

async function complete(modern: Modern, call: MethodCall): Promise<Text> {
  checkOffered(call, "completions");
  return modern.writer.write(call.catalog, "complete", await completion(call));
}

function getSkill(modern: Modern, call: MethodCall): Text {
  checkSkills(call);
  return cacheable(modern, call.catalog, { skill: requestedSkill(call) });
}

function discovery(catalog: Catalog): object {
  const { description } = catalog.contract;
  return {
    supportedVersions: SUPPORTED_VERSIONS,
    capabilities: serverCapabilities(catalog),
    ...(description !== undefined && { instructions: description }),
  };
}

function cacheable(
  { writer, accessRequired }: Pick<Modern, "writer" | "accessRequired">,
  catalog: Catalog,
  result: object,
): Text {
  return writer.write(catalog, "complete", {
    ...result,
    ttlMs: catalog.pinned ? PINNED_TTL_MS : LIST_TTL_MS,
    cacheScope: accessRequired || catalog.isNarrowed ? "private" : "public",
  });
}

/** How long a client may treat a list as fresh. Listening clients are notified of changes; this is for all others. */
const LIST_TTL_MS = 60_000;
/** A release that is addressed by its CID never changes. */
const PINNED_TTL_MS = 365 * 24 * 3_600_000;
const UNCACHED = { ttlMs: 0, cacheScope: "private" };
