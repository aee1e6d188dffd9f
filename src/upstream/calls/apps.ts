import { readAppUri } from "../../contract/apps.ts";
import { hashAppContents } from "../../contract/contents-digests.ts";
import type { AppContract, ToolContract } from "../../contract/contract.ts";
import { cutText } from "../../lib/cut-text.ts";
import type { Problem } from "../../lib/problem.ts";
import { fixed } from "../../limits/fixed.ts";
import { isMethodError } from "../messages/upstream-error.ts";
import type { UpstreamConnection } from "./connection.ts";

export const appBounds = fixed({
  /** Apps that the tools of one upstream name, and the bytes of each; others are not passed on. */
  upstreamApps: 64,
  upstreamAppBytes: 2 * 1024 * 1024,
});

interface ObservedApps {
  /** By URI. Apps that cannot be read, or are too large, are omitted. */
  readonly apps: readonly AppContract[];
  readonly problems: readonly Problem[];
}

export async function observeApps(
  connection: UpstreamConnection,
  tools: readonly ToolContract[],
): Promise<ObservedApps> {
  const { upstreamApps, upstreamAppBytes } = appBounds;
  const uris = [...new Set(tools.flatMap((tool) => readAppUri(tool) ?? []))].sort();
  const waiting = uris.slice(0, upstreamApps);
  const problems: Problem[] = [];
  const omit = (uri: string, reason: string): void => {
    const message = `The app ${cutText(uri, URI_UNITS_MAX)} is not passed on: ${reason}`;
    problems.push({ code: "app-left-out", message, severity: "warning" });
  };
  if (uris.length > upstreamApps) {
    omit(uris[upstreamApps]!, `the tools name ${uris.length} apps, and at most ${upstreamApps} are read`);
  }
  const apps: AppContract[] = [];
  const readWaiting = async (): Promise<void> => {
    for (let uri = waiting.shift(); uri !== undefined; uri = waiting.shift()) {
      try {
        const { contents } = await connection.readResource(uri);
        const cid = hashAppContents(contents, upstreamAppBytes);
        if (cid === undefined) omit(uri, `it has no contents, or more than ${upstreamAppBytes} bytes`);
        else apps.push({ uri, cid });
      } catch (error) {
        if (!isMethodError(error)) throw error;
        omit(uri, cutText(error.message, MESSAGE_UNITS_MAX));
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_READS }, readWaiting));
  return { apps: apps.sort((one, other) => (one.uri < other.uri ? -1 : 1)), problems };
}

const CONCURRENT_READS = 4;
const URI_UNITS_MAX = 200;
const MESSAGE_UNITS_MAX = 500;
