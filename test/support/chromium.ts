import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium, type Browser } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "Google Chrome"];
const FOLDERS = ["/usr/bin", "/usr/local/bin", "/snap/bin", "/Applications/Google Chrome.app/Contents/MacOS"];
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts the Chromium of this machine, or the one that BERTH_TEST_CHROMIUM names. */
export function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium(), args: ARGUMENTS });
}

function findChromium(): string {
  const named = process.env["BERTH_TEST_CHROMIUM"];
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), ...FOLDERS].filter(Boolean);
  const places = named ? [named] : folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const found = places.find(isExecutable);
  if (found) return found;
  throw new Error("there is no Chromium to test pages with: npm test installs it, or name one in BERTH_TEST_CHROMIUM");
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
