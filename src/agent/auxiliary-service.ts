/**
 * What a plug-in of the node is (seed 004, "AuxiliaryServices"): a service that outlives the
 * containers of an application and is there for all of them, such as the shuffle of MapReduce. An
 * operator names its ESM module; the module's default export makes the service:
 *
 *   export default async function create(context: AuxiliaryServiceContext): AuxiliaryService
 *
 * It runs in a thread of its own. Whatever goes wrong there ends that thread, not the agent: it is
 * started again and told of its applications anew, so that everything here may be called twice.
 */

export type AuxiliaryServiceContext = {
  /** By which applications name it. */
  readonly name: string;
  /** The operator's, from the node's configuration. */
  readonly configuration: Readonly<Record<string, string>>;
};

/** An application that sent data for this service with its first container here. */
export type AuxiliaryApplication = {
  readonly applicationId: string;
  readonly user: string;
  /** Base64: what the launch context's `serviceData` has for this service. */
  readonly serviceData: string;
  /**
   * A directory for files between the application's containers, until the application ends. The
   * containers own it: what lies there may be links, and is never to be trusted.
   */
  readonly directory: string;
};

export type AuxiliaryContainer = {
  readonly applicationId: string;
  readonly containerId: string;
};

/** Each call has 10 s. All of them may be left out. */
export interface AuxiliaryService {
  /** For people. */
  readonly version?: string;
  /** Before the first container that names the service; a failure fails that launch. */
  initializeApplication?(application: AuxiliaryApplication): Promise<void> | void;
  /** The application is over; its directory goes afterwards. */
  stopApplication?(application: { readonly applicationId: string }): Promise<void> | void;
  /** A container of such an application is about to start; a failure fails its launch. */
  initializeContainer?(container: AuxiliaryContainer): Promise<void> | void;
  /** It has ended. */
  stopContainer?(
    container: AuxiliaryContainer & { readonly exitStatus: number },
  ): Promise<void> | void;
  /** Base64, for everybody's ApplicationMasters and containers: a port, say. Asked once. */
  metaData?(): Promise<string> | string;
  /** The agent stops, or starts the service again. */
  stop?(): Promise<void> | void;
}

export type CreateAuxiliaryService = (
  context: AuxiliaryServiceContext,
) => Promise<AuxiliaryService> | AuxiliaryService;
