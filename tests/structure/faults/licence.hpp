// Planted fault: no licence line.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

#endif  // INTQ_CORE_PLANTED_HPP
