import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import type { RequestHandler } from "express";
import { packageRoot } from "../config.ts";
import { BerthError } from "../lib/errors.ts";

/**
 * The files that browsers load beside pages: `GET /assets/<name>.<hash>.<ext>`. `npm run build`
 * (scripts/bundle-browser.mjs) makes and compresses them; each stays in memory after its first request.
 */
export interface Assets {
  /** The address of `page.js`, `berth.css`, … Throws an `Error` for a name that was not built. */
  url(name: string): string;
  readonly serve: RequestHandler<{ file: string }>;
}

const FOLDER = join(packageRoot, "dist/browser");
const TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
const ENCODINGS: Readonly<Record<string, string>> = { br: ".br", gzip: ".gz", identity: "" };

export function openAssets(publicPath = ""): Assets {
  const { entries, files } = JSON.parse(readFileSync(join(FOLDER, "assets.json"), "utf8")) as {
    entries: Record<string, string>;
    files: string[];
  };
  const known = new Set(files);
  const loaded = new Map<string, Promise<Buffer>>();

  return {
    url(name) {
      const file = entries[name];
      if (file === undefined) throw new Error(`there is no asset ${name}; npm run build makes them`);
      return `${publicPath}/assets/${file}`;
    },
    async serve(request, response) {
      const { file } = request.params;
      if (!known.has(file)) throw new BerthError("not_found", request.path);
      const encoding = request.acceptsEncodings("br", "gzip", "identity") || "identity";
      const name = `${file}${ENCODINGS[encoding] ?? ""}`;
      let bytes = loaded.get(name);
      if (!bytes) {
        loaded.set(name, (bytes = readFile(join(FOLDER, name))));
        // A read that fails for want of a descriptor may succeed later.
        bytes.catch(() => loaded.delete(name));
      }
      response.setHeader("Content-Type", TYPES[extname(file)] ?? "application/octet-stream");
      response.setHeader("Cache-Control", "public, max-age=31536000, immutable");
      response.vary("Accept-Encoding");
      if (encoding !== "identity") response.setHeader("Content-Encoding", encoding);
      response.end(await bytes);
    },
  };
}
