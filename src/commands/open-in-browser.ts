import { spawn } from "node:child_process";

/** Opens an address in the person's browser. Where that cannot be done, it says so, and nothing else fails. */
export function openInBrowser(url: string, platform: NodeJS.Platform = process.platform): void {
  const [file, ...args] = openers[platform] ?? ["xdg-open"];
  const child = spawn(file!, [...args, url], { stdio: "ignore", detached: true });
  const failed = (): void => console.error(`No browser could be opened; open ${url}`);
  child.on("error", failed);
  child.on("exit", (code) => {
    if (code !== 0 && code !== null) failed();
  });
  child.unref();
}

/** On Windows `start` takes its first quoted argument for a title. */
const openers: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", '""'],
};
