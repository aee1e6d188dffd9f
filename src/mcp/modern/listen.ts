import type { Host } from "../../host/host.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { EventSink, MethodCall } from "../protocol.ts";
import { META_SERVER_INFO, META_SUBSCRIPTION_ID } from "../revisions.ts";
import { serverCapabilities } from "./capabilities.ts";
import { subscriptionNotification, PARTS, type Listeners } from "./notify-listeners.ts";
import type { ResultWriter } from "./results.ts";
import { declaresTasks, lacksTasks, type Tasks } from "./tasks/tasks.ts";

/** Limits a request to listen, which stays in memory while its stream is open. */
const BODY_CHARACTERS_MAX = 16 * 1024;

interface ListenParts {
  readonly host: Pick<Host, "subscribeToNodes">;
  readonly listeners: Listeners;
  readonly tasks: Tasks;
  readonly writer: ResultWriter;
  /** Aborted at shutdown: every stream ends with its result. */
  readonly closing: CancelSignal;
}

/** `subscriptions/listen` (2026-07-28 `basic/patterns/subscriptions`): a request that is answered when it ends. */
export async function listen(parts: ListenParts, call: MethodCall): Promise<string> {
  if (!call.events) {
    throw new BerthError("not_acceptable", "subscriptions/listen needs text/event-stream and a free stream");
  }
  if (call.body.length > BODY_CHARACTERS_MAX) {
    throw new BerthError(
      "invalid_params",
      `a subscriptions/listen request has at most ${BODY_CHARACTERS_MAX} characters`,
    );
  }
  const requested = readFilter(call.params["notifications"]);
  const filter = await supportedFilter(requested, call.catalog);
  // No update after the acknowledgement may be missed.
  if (filter.resourceSubscriptions) await parts.host.subscribeToNodes(call.tenant);
  if (!requested.taskIds?.length) return openListener(parts, call, call.events, filter);
  if (!declaresTasks(call.client)) throw lacksTasks();
  const taskIds = await findTasks(parts.tasks, call, requested.taskIds);
  return openListener(parts, call, call.events, taskIds.length > 0 ? { ...filter, taskIds } : filter);
}

function openListener(
  { listeners, tasks, writer, closing }: ListenParts,
  { tenant, server, catalog, principal, signal, id }: MethodCall,
  events: EventSink,
  filter: Filter,
): string | Promise<string> {
  events.stand?.();
  const idText = JSON.stringify(id);
  const acknowledge = (): void => {
    const params = { notifications: filter };
    void events.send(subscriptionNotification(idText, "notifications/subscriptions/acknowledged", params));
  };
  const result = (): string =>
    JSON.stringify({
      resultType: "complete",
      _meta: { [META_SUBSCRIPTION_ID]: id, [META_SERVER_INFO]: writer.serverInfo(catalog) },
    });
  // Nothing will ever be sent on this stream.
  if (Object.keys(filter).length === 0 || closing.aborted || signal?.aborted) {
    acknowledge();
    return result();
  }

  return new Promise<string>((resolve) => {
    let isOpen = true;
    const end = (): void => {
      isOpen = false;
      remove();
      signal?.removeEventListener("abort", end);
      resolve(result());
    };
    const listener = { sink: events, id: idText, principal, ...toSubscription(filter), end };
    const remove = listeners.add(tenant, server, listener);
    acknowledge();
    signal?.addEventListener("abort", end);
    // Changes of a task before the client listened would otherwise never be sent.
    void sendCurrent(filter.taskIds ?? []).catch(end);

    async function sendCurrent(taskIds: readonly string[]): Promise<void> {
      const maybeYield = createYielder();
      for (const taskId of taskIds) {
        await maybeYield();
        const task = isOpen ? await tasks.find({ tenant, server, principal }, taskId) : undefined;
        if (task && isOpen) await events.send(subscriptionNotification(idText, "notifications/tasks", task));
      }
    }
  });
}

async function findTasks(tasks: Tasks, call: MethodCall, taskIds: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const maybeYield = createYielder();
  for (const taskId of new Set(taskIds)) {
    await maybeYield();
    if (await tasks.has(call, taskId)) found.push(taskId);
  }
  return found;
}

function toSubscription(filter: Filter) {
  const { toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions, taskIds } = filter;
  return {
    parts:
      (toolsListChanged ? PARTS.tools : 0) |
      (promptsListChanged ? PARTS.prompts : 0) |
      (resourcesListChanged ? PARTS.resources : 0),
    uris: resourceSubscriptions,
    taskIds,
  };
}

/** The notifications that a client asks for (2026-07-28 `basic/patterns/subscriptions`, and SEP-2663 for tasks). */
interface Filter {
  readonly toolsListChanged?: boolean;
  readonly promptsListChanged?: boolean;
  readonly resourcesListChanged?: boolean;
  readonly resourceSubscriptions?: readonly string[];
  readonly taskIds?: readonly string[];
}

const FLAGS = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] as const;
const LISTS = ["resourceSubscriptions", "taskIds"] as const;

/** Reads a filter; ignores unknown members. Throws `invalid_params` for an invalid one. */
function readFilter(notifications: unknown): Filter {
  if (!isObject(notifications)) throw new BerthError("invalid_params", '"notifications" must be an object');
  for (const name of FLAGS) {
    if (!["boolean", "undefined"].includes(typeof notifications[name])) {
      throw new BerthError("invalid_params", `"notifications.${name}" must be true or false`);
    }
  }
  for (const name of LISTS) {
    const list = notifications[name] ?? [];
    if (!Array.isArray(list) || list.some((each) => typeof each !== "string")) {
      throw new BerthError("invalid_params", `"notifications.${name}" must be a list of strings`);
    }
  }
  return notifications;
}

/** The part of the filter that a server supports; tasks do not depend on the server. */
async function supportedFilter(requested: Filter, catalog: Catalog): Promise<Omit<Filter, "taskIds">> {
  const capabilities = serverCapabilities(catalog);
  const supports = (capability: string, what: string): boolean =>
    (capabilities[capability] as JsonObject | undefined)?.[what] === true;
  const uris: string[] = [];
  if (supports("resources", "subscribe")) {
    const maybeYield = createYielder();
    for (const uri of new Set(requested.resourceSubscriptions)) {
      await maybeYield();
      if (await catalog.resource(uri)) uris.push(uri);
    }
  }
  return {
    ...(requested.toolsListChanged && supports("tools", "listChanged") && { toolsListChanged: true }),
    ...(requested.promptsListChanged && supports("prompts", "listChanged") && { promptsListChanged: true }),
    ...(requested.resourcesListChanged && supports("resources", "listChanged") && { resourcesListChanged: true }),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  };
}
