! fortran: a Fortran program that calls MPI's C functions. fortran NAME: with dtype rank 1 names
! another type in its sum.
program fortran
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function mpi_init_c(argc, argv) bind(C, name="MPI_Init")
      import c_int, c_ptr
      type(c_ptr), value :: argc, argv
    end function
    integer(c_int) function mpi_finalize_c() bind(C, name="MPI_Finalize")
      import c_int
    end function
    type(c_ptr) function comm_of(fortran) bind(C, name="MPI_Comm_f2c")
      import c_int, c_ptr
      integer(c_int), value :: fortran
    end function
    type(c_ptr) function type_of(fortran) bind(C, name="MPI_Type_f2c")
      import c_int, c_ptr
      integer(c_int), value :: fortran
    end function
    type(c_ptr) function op_of(fortran) bind(C, name="MPI_Op_f2c")
      import c_int, c_ptr
      integer(c_int), value :: fortran
    end function
    integer(c_int) function comm_rank(comm, rank) bind(C, name="MPI_Comm_rank")
      import c_int, c_ptr
      type(c_ptr), value :: comm
      integer(c_int) :: rank
    end function
    integer(c_int) function all_reduce(send, recv, n, type, op, comm) bind(C, name="MPI_Allreduce")
      import c_int, c_ptr, c_float
      real(c_float) :: send(*), recv(*)
      integer(c_int), value :: n
      type(c_ptr), value :: type, op, comm
    end function
  end interface
  ! Open MPI's handles of Fortran: MPI_COMM_WORLD, MPI_INTEGER, MPI_REAL, MPI_SUM
  integer(c_int), parameter :: world = 0, integers = 7, reals = 13, sums = 3
  integer(c_int) :: code, rank, type
  real(c_float) :: send(4), recv(4)
  character(16) :: mistake

  call get_command_argument(1, mistake)
  code = mpi_init_c(c_null_ptr, c_null_ptr)
  code = comm_rank(comm_of(world), rank)
  send = real(rank + 1, c_float)
  type = reals
  if (rank == 1 .and. mistake == "dtype") type = integers
  code = all_reduce(send, recv, 4_c_int, type_of(type), op_of(sums), comm_of(world))
  if (all(recv == 3.0)) then
    print '(a, i0, a)', "rank ", rank, ": right numbers"
  else
    print '(a, i0, a)', "rank ", rank, ": wrong numbers"
  end if
  code = mpi_finalize_c()
end program
