"""A value-function upper bound on a grid: for problems with one or two continuous states.

For any functions V_t with V_t(s) >= R(s, a, s') + V_{t+1}(s') for every feasible step, and V_{H+1} >= 0, every plan is
worth at most V_1(s_1): add up the inequality along the plan. `value_function.grid_bound` makes such functions on ever
finer grids, and its module lists the algorithm; each numbered move has a file of its own.

Words:

    grid, cell, node      a tensor grid over the states (`cells`); a cell is one of its boxes, a node a corner of these
    node values           V_t, given by numbers at the nodes in use, multilinear inside a cell (`node_values`)
    pair                  a cell and a box of actions: all steps that begin in the one with an action of the other
                          (`pairs`); it is in use at step t if a plan that matters may take one of these steps there
    image                 the box of next states of a pair, from affine bounds of the step over it (`pair_bounds`)
    stencil               the nodes of the cells that cover an image, from which V is read there (`stencils`)
    majorant              a plane above a function of the grid, over an image (`majorant`)
    Bellman operator      from V_{t+1} to what each pair can reach by R + V_{t+1} (`bellman`)
    reward-to-come        F_t, above the reward collected before step t; cost-to-come in control (`reward_to_come`)
    coarse slopes         slopes of V on an earlier grid, for majorants where a finer grid has dropped too much to have
                          slopes of its own; they only suggest, for any slope gives a majorant (`coarse_slopes`)
    backward sweep        V_H, .., V_1 on one grid (`backward`)
    forward sweep         F_1, .., F_{H+1} on one grid, and which pairs stay in use (`forward`)
    frozen steps          those at the end of the horizon that are swept no more, since V hardly gains there (`freeze`)
    timed pool            threads that stop at a deadline (`timed_pool`)
"""
