import type { Catalog } from "../../host/catalog/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import { LongObject } from "../../host/calls/long-result.ts";
import type { Text } from "../../lib/long-text.ts";
import type { Codec, Method } from "../protocol.ts";
import { SUPPORTED_VERSIONS } from "../revisions.ts";
import type { ListedLimits } from "../methods/lists.ts";
import { sharedMethods } from "../methods/shared.ts";
import { capabilitiesOf, offers, type Capability } from "./capabilities.ts";
import { listenMethod } from "./listen.ts";
import type { Listeners } from "./listeners.ts";
import type { ResultWriter } from "./results.ts";
import type { Rounds } from "./questions.ts";
import type { Tasks } from "./tasks/tasks.ts";

/**
 * How long a client may consider a list fresh without asking. Listening clients are told of changes; this is for all
 * others.
 */
const LIST_TTL_MS = 60_000;
const UNCACHED = { ttlMs: 0, cacheScope: "private" };
/** A release that is addressed by its CID never changes. */
const PINNED_TTL_MS = 365 * 24 * 3_600_000;

export interface ModernCodecOptions {
  readonly writer: ResultWriter;
  readonly rounds: Rounds;
  readonly tasks: Tasks;
  readonly listeners: Listeners;
  /** True when lists differ between principals. */
  readonly accessRequired: boolean;
  readonly limits: ListedLimits;
}

/** The codec of 2026-07-28: stateless, each request with its version and its client's capabilities. */
export function createModernCodec(options: ModernCodecOptions): Codec {
  const { writer, rounds, tasks, listeners, accessRequired, limits } = options;
  const complete = (catalog: Catalog, result: object): Text => writer.write(catalog, "complete", result);
  const cacheable = (catalog: Catalog, result: object): Text =>
    complete(catalog, {
      ...result,
      ttlMs: catalog.pinned ? PINNED_TTL_MS : LIST_TTL_MS,
      cacheScope: accessRequired || catalog.isNarrowed ? "private" : "public",
    });

  return {
    era: "modern",
    shape: "2026-07-28",
    listItem: (_list, item) => item,
    listPage: (catalog, page) => String(cacheable(catalog, page)),
    callResult: (catalog, _tool, result) => complete(catalog, result),
    // The content of a resource may change at any time and depend on the principal.
    readResult: (catalog, result) =>
      complete(catalog, result instanceof LongObject ? result.with(UNCACHED) : { ...result, ...UNCACHED }),
    promptResult: complete,
    result: complete,
    answersOf: ({ answers }) => answers,
    async ask(call, inputRequests, answers) {
      return { result: writer.write(call.catalog, "input_required", rounds.ask(call, inputRequests, answers)) };
    },
    methods: new Map<string, Method>([
      ...sharedMethods(limits).map(([name, run]): [string, Method] => [
        name,
        ifOffered(name, MAY_ASK.has(name) ? rounds.resumable(name === "tools/call" ? tasks.taskable(run) : run) : run),
      ]),
      ...tasks.methods,
      ["server/discover", ({ catalog }) => cacheable(catalog, discovery(catalog))],
      ["subscriptions/listen", listenMethod({ listeners, tasks, serverInfoOf: writer.serverInfoOf })],
    ]),
  };
}

/** 2026-07-28 `basic/patterns/mrtr`: only these may be answered with a question. */
const MAY_ASK: ReadonlySet<string> = new Set(["tools/call", "resources/read", "prompts/get"]);

function ifOffered(method: string, run: Method): Method {
  const capability = (method === "completion/complete" ? "completions" : method.split("/")[0]) as Capability;
  return (call) => {
    if (!offers(call.catalog, capability)) throw new BerthError("method_not_found", method);
    return run(call);
  };
}

function discovery(catalog: Catalog): object {
  const { description } = catalog.contract;
  return {
    supportedVersions: SUPPORTED_VERSIONS,
    capabilities: capabilitiesOf(catalog),
    ...(description !== undefined && { instructions: description }),
  };
}
