/// What is left of the time that a call has, for each request that the task sends.
package enum RequestTimeout {
    /// The longest silence of a request, and the longest time for a connection; nil: what the engine is set to.
    @TaskLocal package static var current: Duration?
}
