import type { GuestFailure, HostPort } from "../../executor/executor.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { bareHostname } from "../../network/allow-list.ts";
import { authorityOf, portOf } from "../../network/network-rules.ts";
import type { ReleaseJournal } from "../journal/journal.ts";
import type { LiveEvent } from "../journal/record.ts";
import type { Prompt, Resource } from "../offers/catalog.ts";
import type { Open } from "./uris/find-resource.ts";

/** Publishes fetches of a server's code as live events. */
export function publishingPort(port: HostPort, { journal, hide, release }: ReleaseJournal): HostPort {
  const fetch = async (params: JsonObject, call: Parameters<HostPort["request"]>[2]) => {
    const beganAt = performance.now();
    const { method, url } = params;
    const publish = (outcome: { readonly status?: number; readonly refused?: string }): void =>
      journal.publish({
        kind: "fetched",
        server: release.server,
        item: call.item,
        method: typeof method === "string" ? method : "",
        url: typeof url === "string" ? hide(formatAddress(url)) : "",
        ms: performance.now() - beganAt,
        ...outcome,
      });
    try {
      const head = await port.request("fetch", params, call);
      const status = isObject(head) ? head["status"] : undefined;
      publish(typeof status === "number" ? { status } : {});
      return head;
    } catch (error) {
      publish({ refused: hide((error as Error).message) });
      throw error;
    }
  };
  return {
    request: (op, params, call) =>
      op === "fetch" && journal.isFollowed ? fetch(params, call) : port.request(op, params, call),
  };
}

/** Host and path. Query strings often contain secrets. */
function formatAddress(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  const port = portOf(url);
  const isUsual = port === 443 || port === 80;
  return `${isUsual ? bareHostname(url) : authorityOf(bareHostname(url), port)}${url.pathname}`;
}

/** Publishes reads of resources as live events. */
export function publishingResource(open: Open<Resource>, released: ReleaseJournal): Open<Resource> {
  return (uri, args) => {
    const resource = open(uri, args);
    const use = { what: "resource", name: uri, args: {} } as const;
    return { ...resource, read: (options) => publishUse(use, released, () => resource.read(options)) };
  };
}

/** Publishes uses of a prompt as live events. */
export function publishingPrompt(prompt: Prompt, released: ReleaseJournal): Prompt {
  const { name } = prompt.contract;
  return {
    ...prompt,
    get: (args, options) => publishUse({ what: "prompt", name, args }, released, () => prompt.get(args, options)),
  };
}

type Use = Pick<Extract<LiveEvent, { kind: "used" }>, "what" | "name" | "args">;

async function publishUse<Answer>(
  use: Use,
  { journal, hide, release }: ReleaseJournal,
  work: () => Answer | Promise<Answer>,
): Promise<Answer> {
  if (!journal.isFollowed) return work();
  const beganAt = performance.now();
  const publish = (answer: unknown, failed?: { readonly message: string; readonly stack?: string }): void => {
    const ms = performance.now() - beganAt;
    journal.publish({ kind: "used", server: release.server, ...use, ms, answer, failed, hide });
  };
  try {
    const answer = await work();
    publish(answer);
    return answer;
  } catch (error) {
    const { message } = error as Error;
    const cause = error instanceof BerthError ? (error.cause as Partial<GuestFailure> | undefined) : undefined;
    publish(undefined, { message, ...(cause?.stack !== undefined && { stack: cause.stack }) });
    throw error;
  }
}
