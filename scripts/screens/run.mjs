// Pictures of every page, for people to look at: `npm run screens`. A Berth with servers as people have them is started, and
// each page is photographed in light and in dark, on a large and on a small screen. The pictures go into `screens/`, with
// an `index.html` that shows them side by side.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { launchChromium } from "../../dist/test/support/chromium.js";
import { startContents } from "./contents.mjs";
import { pagesOf } from "./pages.mjs";

const HELP = `Usage: npm run screens -- [options]

  --only PART[,PART]  the pages whose names hold one of these
  --out FOLDER        where the pictures go (default: screens)
  --help              this text
`;
const WIDTHS = [1280, 390];
const SCHEMES = ["light", "dark"];
const HEIGHT = 900;
/** A page that is longer is cut: nobody looks at more of it. */
const HEIGHT_MAX = 4_000;
/** For what a page waits for before its picture is taken. */
const WAIT_MS = 30_000;

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    out: { type: "string", default: "screens" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) process.stdout.write(HELP);
else process.exitCode = await run(resolve(values.out), values.only?.split(",") ?? [""]);

/** @param {string} out @param {string[]} parts @returns {Promise<number>} exit code */
async function run(out, parts) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const [contents, browser] = await Promise.all([startContents(), launchChromium()]);
  try {
    const pages = (await pagesOf(contents)).filter(({ name }) => parts.some((part) => name.includes(part)));
    const context = await browser.newContext({ reducedMotion: "reduce" });
    context.setDefaultTimeout(WAIT_MS);
    const failed = [];
    for (const page of pages) {
      const fault = await photograph(context, page, out);
      if (fault) failed.push(`${page.name}: ${fault}`);
      process.stdout.write(`${page.name}${fault ? `: ${fault}` : ""}\n`);
    }
    writeFileSync(join(out, "index.html"), indexOf(pages));
    process.stdout.write(`${pages.length} pages in ${out}\n`);
    return failed.length === 0 ? 0 : 1;
  } finally {
    await browser.close();
    await contents.close();
  }
}

/** @returns {Promise<string | undefined>} why the page did not come to what was to be shown */
async function photograph(context, { name, url, act }, out) {
  for (const width of WIDTHS) {
    const page = await context.newPage();
    try {
      await page.setViewportSize({ width, height: HEIGHT });
      await page.goto(url, { waitUntil: "load" });
      await act?.(page);
      const height = await page.evaluate("document.documentElement.scrollHeight");
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        const clip = { x: 0, y: 0, width, height: Math.min(Math.max(height, HEIGHT), HEIGHT_MAX) };
        await page.screenshot({ path: join(out, `${name}-${width}-${colorScheme}.png`), fullPage: true, clip });
      }
    } catch (error) {
      await page.screenshot({ path: join(out, `${name}-${width}-failed.png`) });
      return String(error).split("\n", 1)[0];
    } finally {
      // What was typed is not to be offered again on the next page.
      await page.evaluate("localStorage.clear()");
      await page.close({ runBeforeUnload: false });
    }
  }
  return undefined;
}

/** @param {readonly { name: string }[]} pages */
function indexOf(pages) {
  const sections = pages.map(({ name }) => {
    const images = WIDTHS.flatMap((width) =>
      SCHEMES.map((scheme) => `<img loading="lazy" width="${width / 2}" src="${name}-${width}-${scheme}.png" alt="">`),
    );
    return `<h2>${name}</h2><div>${images.join("")}</div>`;
  });
  const style = "body{font:1rem system-ui;background:#888}div{display:flex;gap:1rem;align-items:start}";
  return `<!doctype html><meta charset="utf-8"><title>Pages</title><style>${style}</style>${sections.join("\n")}\n`;
}
