/// The time that is left for a call, which applies to each request that the task sends.
package enum RequestTimeout {
    /// The longest silence of a request, and the longest time for a connection; nil: the engine's own setting.
    @TaskLocal package static var current: Duration?
}
