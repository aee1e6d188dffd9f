import type { Catalog } from "../../host/catalog.ts";
import type { Host } from "../../host/host.ts";
import { BerthError } from "../../errors.ts";
import { isObject, type JsonObject } from "../../json.ts";
import type { Method } from "../protocol.ts";
import { META_SERVER_INFO, META_SUBSCRIPTION_ID } from "../revisions.ts";
import { capabilitiesOf } from "./capabilities.ts";
import { notificationOn, PARTS, type Listeners } from "./listeners.ts";

/** What a request to listen may take: it stays in memory for as long as its stream is open. */
const BODY_CHARACTERS_MAX = 16 * 1024;

export interface ListenOptions {
  readonly host: Pick<Host, "watch">;
  readonly listeners: Listeners;
  readonly serverInfoOf: (catalog: Catalog) => object;
}

/** `subscriptions/listen` (2026-07-28 `basic/patterns/subscriptions`): a request that is answered when it ends. */
export function listenMethod(options: ListenOptions): Method {
  const { host, listeners, serverInfoOf } = options;

  return (call) => {
    const { tenant, server, catalog, events, signal } = call;
    if (!events) {
      throw new BerthError("not_acceptable", "subscriptions/listen needs text/event-stream, and a stream that is free");
    }
    if (call.body.length > BODY_CHARACTERS_MAX) {
      throw new BerthError("invalid_params", `a request to listen has at most ${BODY_CHARACTERS_MAX} characters`);
    }
    const filter = honoured(call.params["notifications"], catalog, host);

    const id = JSON.stringify(call.id);
    void events.send(notificationOn(id, "notifications/subscriptions/acknowledged", { notifications: filter }));
    const meta = { [META_SUBSCRIPTION_ID]: call.id, [META_SERVER_INFO]: serverInfoOf(catalog) };
    const result = (): string => JSON.stringify({ resultType: "complete", _meta: meta });
    // Nothing would ever come on this stream.
    if (Object.keys(filter).length === 0 || call.closing.aborted || signal?.aborted) return result();

    return new Promise((resolve) => {
      const end = (): void => {
        remove();
        signal?.removeEventListener("abort", end);
        resolve(result());
      };
      const { parts, uris } = wantedOf(filter);
      const remove = listeners.add(tenant, server, { sink: events, id, parts, uris, end });
      signal?.addEventListener("abort", end);
    });
  };
}

interface Filter {
  readonly toolsListChanged?: true;
  readonly promptsListChanged?: true;
  readonly resourcesListChanged?: true;
  readonly resourceSubscriptions?: readonly string[];
}

/** What of the wishes can be fulfilled. Throws `invalid_params` for what are no wishes. */
function honoured(notifications: unknown, catalog: Catalog, host: Pick<Host, "watch">): Filter {
  if (!isObject(notifications)) throw new BerthError("invalid_params", '"notifications" must be an object');
  const { resourceSubscriptions } = notifications;
  for (const name of ["toolsListChanged", "promptsListChanged", "resourcesListChanged"]) {
    const wish = notifications[name];
    if (wish !== undefined && typeof wish !== "boolean") {
      throw new BerthError("invalid_params", `"notifications.${name}" must be true or false`);
    }
  }
  if (resourceSubscriptions !== undefined && !isListOfTexts(resourceSubscriptions)) {
    throw new BerthError("invalid_params", '"notifications.resourceSubscriptions" must be a list of texts');
  }

  const capabilities = capabilitiesOf(catalog, host);
  const can = (capability: string, what: string): boolean =>
    (capabilities[capability] as JsonObject | undefined)?.[what] === true;
  const uris = can("resources", "subscribe")
    ? [...new Set(resourceSubscriptions)].filter((uri) => catalog.resource(uri) !== undefined)
    : [];
  return {
    ...(notifications["toolsListChanged"] === true && can("tools", "listChanged") && { toolsListChanged: true }),
    ...(notifications["promptsListChanged"] === true && can("prompts", "listChanged") && { promptsListChanged: true }),
    ...(notifications["resourcesListChanged"] === true &&
      can("resources", "listChanged") && { resourcesListChanged: true }),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  };
}

function wantedOf(filter: Filter): { parts: number; uris: ReadonlySet<string> | undefined } {
  const { toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions } = filter;
  return {
    parts:
      (toolsListChanged ? PARTS.tools : 0) |
      (promptsListChanged ? PARTS.prompts : 0) |
      (resourcesListChanged ? PARTS.resources : 0),
    uris: resourceSubscriptions && new Set(resourceSubscriptions),
  };
}

function isListOfTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}
