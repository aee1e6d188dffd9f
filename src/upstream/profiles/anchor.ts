import { resolve } from "node:path";
import { parseLauncher } from "../launcher-uri.ts";

/** The URI of a script with its absolute path, so that it means the same wherever the profile is used. */
export function anchorUri(uri: string, folder: string): string {
  const { launch } = parseLauncher(uri);
  if (launch?.launcher !== "python" && launch?.launcher !== "node") return uri;
  const path = encodeURI(resolve(folder, launch.target)).replaceAll("?", "%3F").replaceAll("#", "%23");
  const question = uri.indexOf("?");
  return `mcp+${launch.launcher}://${path}${question === -1 ? "" : uri.slice(question)}`;
}
