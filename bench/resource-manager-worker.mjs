/**
 * Entry of the Worker that bench/resource-manager.ts measures: the deployment's own objects, and one
 * way to call the ResourceManager's methods. Never deployed.
 */
export * from "../src/worker/index.ts";

export default {
  /** `{ method, args }`, answered with the reply, lists of containers as their ids. */
  async fetch(request, env) {
    if (request.method === "GET") return new Response("ok");
    const { method, args } = await request.json();
    const reply = await env.RESOURCE_MANAGER.getByName("bench")[method](...args);
    const containers = reply?.value?.allocated;
    if (containers === undefined) return Response.json(reply);
    const allocated = containers.map(({ containerId, nodeId }) => ({ containerId, nodeId }));
    return Response.json({ ...reply, value: { ...reply.value, allocated } });
  },
};
