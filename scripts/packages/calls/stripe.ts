import Stripe from "stripe";

/** Makes a customer, and verifies the signature of an event. */
export async function customer(
  at: string,
): Promise<{ id: string; email: string | null; type: string; refused: boolean }> {
  const [host, port] = at.split(":") as [string, string];
  const stripe = new Stripe("sk_test_none", { host, port, protocol: "http", maxNetworkRetries: 0 });
  const { id, email } = await stripe.customers.create({ email: "ada@example.com" });
  const payload = JSON.stringify({ id: "evt_1", object: "event", type: "invoice.paid" });
  const secret = "whsec_none";
  const header = await stripe.webhooks.generateTestHeaderStringAsync({ payload, secret });
  const { type } = await stripe.webhooks.constructEventAsync(payload, header, secret);
  const refused = await stripe.webhooks.constructEventAsync(payload, header, "whsec_other").then(
    () => false,
    () => true,
  );
  return { id, email, type, refused };
}
