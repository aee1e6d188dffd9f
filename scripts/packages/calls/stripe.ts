import Stripe from "stripe";

const stripe = new Stripe("sk_test_none");

/** Verifies the signature of an event. */
export async function event(): Promise<{ type: string; refused: boolean }> {
  const payload = JSON.stringify({ id: "evt_1", object: "event", type: "invoice.paid" });
  const secret = "whsec_none";
  const header = await stripe.webhooks.generateTestHeaderStringAsync({ payload, secret });
  const { type } = await stripe.webhooks.constructEventAsync(payload, header, secret);
  const refused = await stripe.webhooks.constructEventAsync(payload, header, "whsec_other").then(
    () => false,
    () => true,
  );
  return { type, refused };
}
