import { BerthError } from "../../lib/errors.ts";
import type { Catalog } from "../../host/catalog/catalog.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { capabilitiesOf } from "./capabilities.ts";

/** The notifications that a client wants (2026-07-28 `basic/patterns/subscriptions`, and SEP-2663 for tasks). */
export interface Filter {
  readonly toolsListChanged?: boolean;
  readonly promptsListChanged?: boolean;
  readonly resourcesListChanged?: boolean;
  readonly resourceSubscriptions?: readonly string[];
  readonly taskIds?: readonly string[];
}

const FLAGS = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] as const;
const LISTS = ["resourceSubscriptions", "taskIds"] as const;

/** Reads a filter; ignores unknown members. Throws `invalid_params` for an invalid one. */
export function readFilter(notifications: unknown): Filter {
  if (!isObject(notifications)) throw new BerthError("invalid_params", '"notifications" must be an object');
  for (const name of FLAGS) {
    if (!["boolean", "undefined"].includes(typeof notifications[name])) {
      throw new BerthError("invalid_params", `"notifications.${name}" must be true or false`);
    }
  }
  for (const name of LISTS) {
    const list = notifications[name] ?? [];
    if (!Array.isArray(list) || list.some((each) => typeof each !== "string")) {
      throw new BerthError("invalid_params", `"notifications.${name}" must be a list of texts`);
    }
  }
  return notifications;
}

/** The part of the filter that a server can fulfil; tasks are not the server's to promise. */
export async function honoured(wishes: Filter, catalog: Catalog): Promise<Omit<Filter, "taskIds">> {
  const capabilities = capabilitiesOf(catalog);
  const can = (capability: string, what: string): boolean =>
    (capabilities[capability] as JsonObject | undefined)?.[what] === true;
  const uris: string[] = [];
  if (can("resources", "subscribe")) {
    const takeTurns = turnTaker();
    for (const uri of new Set(wishes.resourceSubscriptions)) {
      await takeTurns();
      if (await catalog.resource(uri)) uris.push(uri);
    }
  }
  return {
    ...(wishes.toolsListChanged && can("tools", "listChanged") && { toolsListChanged: true }),
    ...(wishes.promptsListChanged && can("prompts", "listChanged") && { promptsListChanged: true }),
    ...(wishes.resourcesListChanged && can("resources", "listChanged") && { resourcesListChanged: true }),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  };
}
