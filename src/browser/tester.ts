import { targetOf } from "./tester/target.ts";
import type { Tester } from "./tester/tester.tsx";

/**
 * Opens the tester in `<section id="tester" data-endpoint data-style>` when a person asks for it: by its button, by a
 * link such as `#tool=echo`, or by an address that ends so. Only then is the client loaded. Links to it are marked
 * with `data-try` and hidden until here, for without scripts they lead nowhere.
 */
const section = document.getElementById("tester");
if (section) prepare(section);

function prepare(section: HTMLElement): void {
  const button = section.querySelector("button");
  let tester: Promise<Tester> | undefined;

  const open = async () => {
    button?.setAttribute("aria-busy", "true");
    tester ??= load(section);
    const opened = await tester;
    const target = targetOf(location.hash);
    if (target) opened.show(target);
  };
  const openByAddress = () => {
    if (!targetOf(location.hash)) return;
    section.scrollIntoView();
    section.querySelector("h2")?.focus({ preventScroll: true });
    void open();
  };

  for (const element of document.querySelectorAll<HTMLElement>("#tester button, [data-try]")) element.hidden = false;
  button?.addEventListener("click", () => void open());
  addEventListener("hashchange", openByAddress);
  // A second click at the link that one came by changes no address.
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link?.hash && link.hash === location.hash) openByAddress();
  });
  openByAddress();
}

async function load(section: HTMLElement): Promise<Tester> {
  const { endpoint = "", style = "" } = section.dataset;
  const [{ mountTester }] = await Promise.all([import("./tester/tester.tsx"), loadStyle(style)]);
  const heading = section.querySelector("h2");
  const place = document.createElement("div");
  if (section.querySelector("button") === document.activeElement) heading?.focus();
  heading?.nextElementSibling?.replaceWith(place);
  return mountTester(place, endpoint, targetOf(location.hash));
}

function loadStyle(href: string): Promise<void> {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve) => {
    link.addEventListener("load", () => resolve());
    // Without its style it is plain, but it works.
    link.addEventListener("error", () => resolve());
    document.head.append(link);
  });
}
