import { fileURLToPath } from "node:url";
import { serve } from "./berth.mjs";
import { legacyCall, modernCall, modernList } from "./requests.mjs";

/**
 * The contestants of each load. A trial is one contestant under one kind of request.
 *
 * @typedef {import("./server-process.mjs").Launch} Launch
 * @typedef {import("./requests.mjs").LoadRequest} LoadRequest
 * @typedef {{
 *   contestant: string, title: string, kind: "call" | "list", parts: string[],
 *   launch: (port: number) => Launch, request: LoadRequest, guests: boolean,
 * }} Trial
 */

/**
 * @param {string} folder for logs and data
 * @param {{ one: string, fifty: string, many: string }} images folders of Berth's images
 * @param {number} many how many servers the largest one has
 * @param {string} [profiles] folder for a CPU profile of each run of Berth
 * @returns {Trial[]}
 */
export function trials(folder, images, many, profiles) {
  const nodeFlags = profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profiles}`];
  const berth = (image) => ({ launch: serve(folder, image, { nodeFlags }), guests: true });
  const peer = (file, tools) => ({ launch: launchPeer(folder, file, tools), guests: false });
  const call = (contestant, title, how, request, parts = ["call"]) => {
    return { contestant, title, kind: /** @type {const} */ ("call"), parts, request, ...how };
  };
  const list = (contestant, title, how, path) => {
    return {
      contestant,
      title,
      kind: /** @type {const} */ ("list"),
      parts: ["list"],
      request: modernList(path, 50),
      ...how,
    };
  };
  const [modern, toBerth] = [modernCall("/mcp"), modernCall("/mcp/echo")];
  return [
    call("bare", "node:http, parse and answer", peer("bare", 1), modern),
    call("express", "Express 5 with express.json", peer("express", 1), modern),
    call("fastmcp", "fastmcp 4.20 (2025-11-25)", peer("fastmcp", 1), legacyCall("/mcp")),
    call("sdk", "official SDK 2.4, 1 tool", peer("sdk", 1), modern),
    call("sdk50", "official SDK 2.4, 50 tools", peer("sdk", 50), modern),
    call("berth", "Berth, 1 tool", berth(images.one), toBerth, ["call", "servers"]),
    call("berth50", "Berth, 50 tools", berth(images.fifty), toBerth),
    call("berthMany", `Berth, ${many} servers`, berth(images.many), toBerth, ["servers"]),
    list("sdk50", "official SDK 2.4, 50 tools", peer("sdk", 50), "/mcp"),
    list("berth50", "Berth, 50 tools", berth(images.fifty), "/mcp/echo"),
  ];
}

function launchPeer(folder, file, tools) {
  const path = fileURLToPath(new URL(`peers/${file}.mjs`, import.meta.url));
  return (port) => ({ args: [path, String(port), String(tools)], env: {}, folder });
}
