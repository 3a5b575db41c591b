-- The simulated GPUs that a real store holds from a time when nothing kept the two apart. No parameters.
SELECT uuid FROM gpus WHERE source = 'simulated' AND (SELECT origin FROM origin) = 'real';
