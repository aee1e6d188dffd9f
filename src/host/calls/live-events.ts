import type { GuestFailure, GuestLog, HostPort } from "../../executor/executor.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { bareHostname } from "../../network/allow-list.ts";
import { authorityOf, portOf } from "../../network/network-rules.ts";
import type { CalledTool, Happening, Hide, Observers } from "../journal/journal.ts";
import type { Prompt, Resource } from "../offers/catalog.ts";
import type { Run } from "./run.ts";
import type { Open } from "./uris/find-resource.ts";

/**
 * Ports, resources and prompts that tell what happens at them to whoever follows it (`Observers.follow`); nothing is made
 * of it while nobody does.
 */
interface Followed {
  readonly server: string;
  readonly hide: Hide;
  readonly observers: Observers;
}

/** The port of a server's code, whose fetches are followed. */
export function followedPort(port: HostPort, followed: Followed): HostPort {
  const { observers } = followed;
  return {
    request: (op, params, call) =>
      op === "fetch" && observers.isFollowed
        ? followedFetch(port, params, call, followed)
        : port.request(op, params, call),
  };
}

async function followedFetch(
  port: HostPort,
  params: JsonObject,
  call: Parameters<HostPort["request"]>[2],
  { server, hide, observers }: Followed,
) {
  const beganAt = performance.now();
  const { method, url } = params;
  const tell = (outcome: { readonly status?: number; readonly refused?: string }): void =>
    observers.happened({
      kind: "fetched",
      server,
      item: call.item,
      method: typeof method === "string" ? method : "",
      url: typeof url === "string" ? hide(addressOf(url)) : "",
      ms: performance.now() - beganAt,
      ...outcome,
    });
  try {
    const head = await port.request("fetch", params, call);
    const status = isObject(head) ? head["status"] : undefined;
    tell(typeof status === "number" ? { status } : {});
    return head;
  } catch (error) {
    tell({ refused: hide((error as Error).message) });
    throw error;
  }
}

/** Host and path: a query often holds what nobody else may see. */
function addressOf(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  const port = portOf(url);
  const isUsual = port === 443 || port === 80;
  return `${isUsual ? bareHostname(url) : authorityOf(bareHostname(url), port)}${url.pathname}`;
}

/** Resources whose reads are followed. */
export function followedResource(open: Open<Resource>, { server, hide, observers }: Followed): Open<Resource> {
  return (uri, args) => {
    const resource = open(uri, args);
    return {
      ...resource,
      read: (options) =>
        observers.isFollowed
          ? followedUse({ kind: "used", what: "resource", server, name: uri, args: {}, hide }, observers, () =>
              resource.read(options),
            )
          : resource.read(options),
    };
  };
}

/** A prompt whose uses are followed. */
export function followedPrompt(prompt: Prompt, { server, hide, observers }: Followed): Prompt {
  const { name } = prompt.contract;
  return {
    ...prompt,
    get: (args, options) =>
      observers.isFollowed
        ? followedUse({ kind: "used", what: "prompt", server, name, args, hide }, observers, () =>
            prompt.get(args, options),
          )
        : prompt.get(args, options),
  };
}

type Use = Omit<Extract<Happening, { kind: "used" }>, "ms" | "answer" | "failed">;

async function followedUse<Answer>(
  use: Use,
  observers: Observers,
  work: () => Answer | Promise<Answer>,
): Promise<Answer> {
  const beganAt = performance.now();
  const tell = (answer: unknown, failed: { readonly message: string; readonly stack?: string } | undefined): void =>
    observers.happened({ ...use, ms: performance.now() - beganAt, answer, failed });
  try {
    const answer = await work();
    tell(answer, undefined);
    return answer;
  } catch (error) {
    const { message } = error as Error;
    const cause = error instanceof BerthError ? (error.cause as Partial<GuestFailure> | undefined) : undefined;
    tell(undefined, { message, ...(cause?.stack !== undefined && { stack: cause.stack }) });
    throw error;
  }
}

/** The run of an item that is no tool: its author hears its lines as those of a tool. */
export function heardRun(run: Run, item: CalledTool, observers: Observers): Run {
  const hear = (line: GuestLog): void => observers.tellLine({ tool: item, line });
  return (args, options) => run(args, options, observers.anyLines ? hear : undefined);
}
