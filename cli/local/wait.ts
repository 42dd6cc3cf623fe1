export * from '../../test/cluster/wait.ts';
