import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { create } from "tar";
import { openServer } from "./listening.ts";

/** A package as its author has it. */
export interface TestPackage {
  readonly name: string;
  readonly version?: string;
  /** Fields of its `package.json`. */
  readonly manifest?: Readonly<Record<string, unknown>>;
  readonly files?: Readonly<Record<string, string>>;
  /** The registry's own words about it, where they are not true. */
  readonly dist?: Readonly<Record<string, unknown>>;
  /** Bytes that it sends for the tarball, where they are not the tarball's. */
  readonly sent?: Uint8Array;
}

export type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A registry on loopback with packages that a test makes, well-behaved or not. */
export interface TestRegistry {
  readonly url: string;
  /** Every request so far: method and path. */
  readonly requests: string[];
  /** The `authorization` of every request so far. */
  readonly authorizations: (string | undefined)[];
  publish(...packages: readonly TestPackage[]): void;
  unpublish(name: string): void;
  /** Answers a path in its own way. */
  at(path: string, answer: Answer): void;
  close(): Promise<void>;
}

export async function startTestRegistry(...packages: TestPackage[]): Promise<TestRegistry> {
  const versions = new Map<string, Map<string, Record<string, unknown>>>();
  const tarballs = new Map<string, Uint8Array>();
  const ways = new Map<string, Answer>();
  const requests: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const server = await openServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    requests.push(`${request.method} ${path}`);
    authorizations.push(request.headers.authorization);
    const way = ways.get(path);
    if (way) return way(request, response);
    const tarball = tarballs.get(path);
    if (tarball) return void response.setHeader("content-length", tarball.length).end(tarball);
    const found = versions.get(path.slice(1));
    if (!found)
      return void response.writeHead(404, { "content-type": "application/json" }).end('{"error":"Not found"}');
    const all = Object.fromEntries(found);
    const latest = [...found.keys()].at(-1);
    const packument = { name: path.slice(1), "dist-tags": { latest }, versions: all };
    response.setHeader("content-type", "application/json").end(JSON.stringify(packument));
  });
  const url = `${server.url}/`;
  const registry: TestRegistry = {
    url,
    requests,
    authorizations,
    publish: (...more) => {
      for (const each of more) {
        const { name, version = "1.0.0", manifest, dist, sent } = each;
        const bytes = tarballOf(each);
        const path = `/${name}/-/${name.split("/").at(-1)}-${version}.tgz`;
        tarballs.set(path, sent ?? bytes);
        const known = versions.get(name) ?? new Map<string, Record<string, unknown>>();
        known.set(version, {
          name,
          version,
          ...manifest,
          dist: { tarball: `${url}${path.slice(1)}`, integrity: sha512(bytes), shasum: sha1(bytes), ...dist },
        });
        versions.set(name, known);
      }
    },
    unpublish: (name) => {
      versions.delete(name);
    },
    at: (path, answer) => void ways.set(path, answer),
    close: () => server.close(),
  };
  registry.publish(...packages);
  return registry;
}

/** The tarball that npm would make of a package, the same each time. */
export function tarballOf({ name, version = "1.0.0", manifest, files = {} }: TestPackage): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), "berth-tarball-"));
  try {
    const all = { "package.json": JSON.stringify({ name, version, ...manifest }), ...files };
    for (const [path, text] of Object.entries(all)) {
      const file = join(folder, "package", path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    const file = join(folder, "package.tgz");
    create({ file, cwd: folder, gzip: true, portable: true, noMtime: true, sync: true }, ["package"]);
    return readFileSync(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export function sha512(bytes: Uint8Array): string {
  return `sha512-${createHash("sha512").update(bytes).digest("base64")}`;
}

function sha1(bytes: Uint8Array): string {
  return createHash("sha1").update(bytes).digest("hex");
}

/** A registry that is closed after the test that calls this. */
export async function registryOf(...packages: TestPackage[]): Promise<TestRegistry> {
  const registry = await startTestRegistry(...packages);
  after(() => registry.close());
  return registry;
}
