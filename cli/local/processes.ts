export * from '../../test/cluster/processes.ts';
