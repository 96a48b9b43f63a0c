/** NodeHealthStatus: whether a node is fit for new containers, and if not, why, for people. */
export type Health = {
  readonly healthy: boolean;
  /** Empty when it is. Has no figures that change all the time: each change is reported. */
  readonly report: string;
};
