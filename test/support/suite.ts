import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { startTestBerth, type TestBerth, type TestSources } from "./berth.ts";
import { openHosted, type Hosted } from "./host.ts";
import { openServer, type Listener } from "./listening.ts";
import { startTestRegistry, type TestPackage, type TestRegistry } from "./registry.ts";
import { closeAfter, temporaryFolder, type Ending } from "./temporary-folder.ts";

export { closeAfter, temporaryFolder, type Ending } from "./temporary-folder.ts";

/** A Berth for the tests of the suite or file that calls this; sources that other hooks prepare are given as a function. */
export function berthInSuite(sources: TestSources | (() => TestSources | Promise<TestSources>)): TestBerth {
  return inSuite(async () => startTestBerth(typeof sources === "function" ? await sources() : sources));
}

/** As `berthInSuite`, a host without HTTP. */
export function hostedInSuite(...args: Parameters<typeof openHosted>): Hosted {
  return inSuite(() => openHosted(...args));
}

/** A Berth that is closed after the test. */
export async function berthFor(t: Ending, sources: TestSources): Promise<TestBerth> {
  return closeAfter(t, await startTestBerth(sources));
}

/** As `berthFor`, a host without HTTP. */
export async function hostedFor(t: Ending, ...args: Parameters<typeof openHosted>): Promise<Hosted> {
  return closeAfter(t, await openHosted(...args));
}

export function registryInSuite(...packages: TestPackage[]): TestRegistry {
  return inSuite(() => startTestRegistry(...packages));
}

/** Opens something for the tests of the suite or file that calls this, and closes it after them. */
export function inSuite<T extends { close(): Promise<void> }>(open: () => Promise<T>): T {
  let opened: T | undefined;
  before(async () => void (opened = await open()));
  after(() => opened?.close());
  const get = (_: T, name: string | symbol): unknown => {
    const value: unknown = Reflect.get(opened!, name);
    return typeof value === "function" ? (value.bind(opened) as unknown) : value;
  };
  return new Proxy({} as T, { get });
}

/** An HTTP server on a free port, closed after the test; resolves with its origin. */
export async function serve(t: Ending, listener: Listener): Promise<string> {
  return closeAfter(t, await openServer(listener)).url;
}

/** As `serve`, for the tests of the suite or file that calls this. */
export function serverInSuite(listener: Listener): { readonly url: string } {
  return inSuite(() => openServer(listener));
}

/** As `temporaryFolder`, with files. */
export function folderWith(files: Readonly<Record<string, string | Uint8Array>>, t?: Ending): string {
  const folder = temporaryFolder(t);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}
