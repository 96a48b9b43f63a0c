/**
 * Images: whether the engine has them, and getting them. A registry's login comes from a docker
 * config.json among the container's files; only its `auths` are used, because helpers and plug-ins
 * that such a file can name would be run with the agent's rights.
 */
import { mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import * as z from "zod";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { type DockerCli, lastLine } from "./docker-cli.ts";

/** YARN's `docker.image-update`: `always` asks the registry before every start. */
export const PULL_POLICIES = ["missing", "always", "never"] as const;
export type PullPolicy = (typeof PULL_POLICIES)[number];

export type DockerImagesOptions = {
  readonly cli: DockerCli;
  /** The agent's own directory (0700) for logins while they are needed. */
  readonly temporary: string;
  readonly policy: PullPolicy;
  readonly pullTimeoutMs: number;
};

export type DockerLogin = {
  /** Path of a docker config.json. */
  readonly file: string;
  /** Where the file's real path must lie. */
  readonly within: readonly string[];
};

const clientConfigSchema = z.object({
  auths: z.record(
    z.string(),
    z.object({
      auth: z.string().optional(),
      username: z.string().optional(),
      password: z.string().optional(),
      identitytoken: z.string().optional(),
    }),
  ),
});

export class DockerImages {
  readonly #options: DockerImagesOptions;
  /** Pulls under way that need no login: who wants the same image waits for the same pull. */
  readonly #pulls = new Map<string, Promise<Reply<undefined>>>();

  constructor(options: DockerImagesOptions) {
    this.#options = options;
  }

  /** Resolves when the engine has the image; fails with what the registry said. */
  async ensure(
    image: string,
    login: DockerLogin | undefined,
    onProgress: (line: string) => void,
  ): Promise<Reply<undefined>> {
    const { cli, policy } = this.#options;
    if (policy !== "always") {
      const found = await cli.run(["image", "inspect", "--format", "{{.Id}}", image]);
      if (found.code === 0) return ok();
      if (policy === "never") {
        return fail("NOT_FOUND", `image ${image} is not on this node: ${lastLine(found)}`, {
          hint: "load it there, or let the node's operator allow images to be pulled",
        });
      }
    }
    if (login) return this.#pull(image, login, onProgress);
    const pull = this.#pulls.get(image) ?? this.#pull(image, undefined, onProgress);
    this.#pulls.set(image, pull);
    return pull.finally(() => this.#pulls.delete(image));
  }

  async #pull(
    image: string,
    login: DockerLogin | undefined,
    onLine: (line: string) => void,
  ): Promise<Reply<undefined>> {
    const { cli, temporary, pullTimeoutMs } = this.#options;
    // With its transport named, podman takes a short name for one of Docker Hub, as docker does.
    const source = cli.flavour === "podman" ? `docker://${image}` : image;
    const call = { timeoutMs: pullTimeoutMs, onLine };
    if (!login) return pulled(image, await cli.run(["pull", source], call));
    const auths = await readAuths(login);
    if (!auths.ok) return auths;
    const directory = await mkdtemp(join(temporary, "login-"));
    try {
      const file = join(directory, "config.json");
      await writeFile(file, JSON.stringify({ auths: auths.value }), { mode: 0o600 });
      if (cli.flavour === "podman") {
        return pulled(image, await cli.run(["pull", "--authfile", file, source], call));
      }
      const environment = { DOCKER_CONFIG: directory };
      return pulled(image, await cli.run(["pull", source], { ...call, environment }));
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

function pulled(image: string, result: Awaited<ReturnType<DockerCli["run"]>>): Reply<undefined> {
  if (result.code === 0) return ok();
  return fail("UNAVAILABLE", `cannot pull image ${image}: ${lastLine(result)}`, {
    hint: "look at its name and tag, and at the login if the registry needs one",
  });
}

/** The message never holds anything of the file: it may be the wrong one. */
async function readAuths({ file, within }: DockerLogin) {
  try {
    const real = await realpath(file);
    const isOurs = within.some((path) => real === path || real.startsWith(path + sep));
    const config = clientConfigSchema.safeParse(
      isOurs ? JSON.parse(await readFile(real, "utf8")) : undefined,
    );
    if (config.success) return ok(config.data.auths);
  } catch {
    // Missing, unreadable, or no JSON: all the same to the user.
  }
  return fail("INVALID_ARGUMENT", "the docker client configuration is no config.json with auths", {
    hint: 'write {"auths": {"registry.example.com": {"auth": "…"}}}; helpers are not run',
  });
}
